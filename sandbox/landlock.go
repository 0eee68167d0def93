package sandbox

// newestABI is the newest Landlock version whose rights are known here.
const newestABI = 9

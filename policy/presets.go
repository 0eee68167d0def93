package policy

// Default returns the policy of a run whose caller stated none: reads are allowed,
// writes and commands ask, the network is refused. Files that hold secrets can be
// neither read nor written, and files that git or the harness would obey cannot be
// written. These denies hold whatever is added: who must write a .git/config starts
// from [Permissive].
func Default() Policy {
	p := Policy{defaults: Defaults{Read: Allow, Write: Ask, Exec: Ask, Net: Deny}}
	var secrets []Rule
	for _, name := range []string{".env", "*.pem", "id_rsa", "id_ed25519", "*.key"} {
		secrets = append(secrets,
			Rule{Act: Read, Effect: Deny, Pattern: name},
			Rule{Act: Write, Effect: Deny, Pattern: name})
	}
	return p.push(LayerSecrets).add(secrets).
		push(LayerExec).add(rulesOf(Exec, Allow, []string{"rustc", "<test-binary>"})).
		push(LayerConfig).add(rulesOf(Write, Deny, []string{".git/*", "*/.git/*", "io.toml", "io.local.toml"}))
}

// Permissive returns the policy that allows everything: no layer, and every default
// allow. It has none of the denies of [Default]: keys can be read and .git can be
// written. What still holds is what no policy lifts: the workspace root, hosts that
// cannot be checked, and the address floor of whoever dials.
func Permissive() Policy {
	return Policy{defaults: Defaults{Allow, Allow, Allow, Allow}}
}

// WithMoreSecrets adds a layer that forbids reading and writing more places where
// keys are kept: the variants of .env, package managers' and cloud tools' credential
// files, key stores, and Terraform state. Default leaves them open because projects
// keep harmless files under such names.
func (p Policy) WithMoreSecrets() Policy {
	names := moreSecrets()
	return p.push(LayerMoreSecret).add(append(rulesOf(Read, Deny, names), rulesOf(Write, Deny, names)...))
}

func moreSecrets() []string {
	return []string{
		".env.*", ".netrc", ".npmrc", ".pypirc", "id_ecdsa", "id_dsa", "*.p12", "*.pfx", "*.jks",
		".aws", ".ssh", ".kube", ".gnupg", ".docker/config.json", "*/.docker/config.json", "*.tfstate",
	}
}

// WithControlFiles adds a layer that asks before a write to files that other programs
// obey: build files, package scripts, CI and editor tasks, instructions for agents.
// It matters where writes are otherwise allowed.
func (p Policy) WithControlFiles() Policy {
	return p.push(LayerControl).add(rulesOf(Write, Ask, []string{
		"Makefile", "GNUmakefile", "*.mk", "CMakeLists.txt", "justfile", "Taskfile.yml", "Rakefile",
		"package.json", "build.rs", "build.gradle", "build.gradle.kts", "setup.py", "conftest.py",
		"Dockerfile", "docker-compose.yml", "compose.yaml", ".envrc", ".tool-versions",
		".github", ".gitlab-ci.yml", ".circleci", "Jenkinsfile", ".husky", ".pre-commit-config.yaml",
		".vscode", ".idea", ".devcontainer", ".gitattributes", ".gitmodules",
		"AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".cursor", ".claude",
	}))
}

// WithLauncherAsk adds a layer that asks before programs and options that start other
// programs or write files although they look harmless: shells, interpreters with code
// on the line, wrappers, task runners, and the known options of find, git, tar and
// others. It matters where commands are otherwise allowed. The list cannot be
// complete; containment is what bounds a program.
func (p Policy) WithLauncherAsk() Policy {
	return p.push(LayerLaunchers).add(rulesOf(Exec, Ask, []string{
		// Shells.
		"sh", "ash", "bash", "dash", "ksh", "zsh", "fish", "csh", "tcsh", "busybox", "pwsh", "powershell", "cmd",
		// Wrappers, which run what follows them.
		"env", "nice", "ionice", "nohup", "setsid", "stdbuf", "timeout", "time", "watch", "xargs", "parallel",
		"sudo", "doas", "su", "runuser", "chroot", "unshare", "nsenter", "taskset", "flock", "script", "expect",
		"strace", "ltrace", "gdb", "lldb", "entr", "systemd-run", "at", "crontab",
		// Other machines and containers.
		"ssh", "scp", "sftp", "rsync", "docker", "podman", "kubectl",
		// Interpreters: the ones whose language starts programs in passing, and code on the line.
		"awk", "gawk", "mawk", "nawk", "sed", "gsed", "ed", "ex", "vi", "vim", "nvim", "emacs",
		"python* -c*", "node* -e*", "node* --eval*", "node* -p*", "node* --print*", "deno eval*", "bun -e*",
		"perl* -*e*", "ruby* -*e*", "php* -r*", "lua* -e*", "osascript",
		// Task runners, which run what the repository says.
		"make", "gmake", "just", "task", "ninja", "rake", "npm", "npx", "yarn", "pnpm", "pnpx", "bunx", "tox", "nox",
		// Options that start programs or write files.
		"find* -exec*", "find* -ok*", "find* -delete*", "find* -fprint*", "find* -fls*",
		"fd* -x*", "fd* --exec*", "rg* --pre*", "rg* --hostname-bin*", "sort* --compress-program*", "sort* -o*", "sort* --output*",
		"git* -c *", "git* --config-env*", "git* --exec-path*", "git* -p *", "git* --paginate*", "git* --output*",
		"git* -o*", "git* --ext-diff*", "git* --textconv*", "git* --upload-pack*", "git* --receive-pack*", "git* --open-files-in-pager*",
		"git* bisect run*", "git* rebase* --exec*", "git* rebase* -x*", "git* submodule foreach*", "git* filter-branch*",
		"tar* --to-command*", "tar* --checkpoint-action*", "tar* --use-compress-program*", "tar* --rsh-command*", "tar* -I*",
		"tar* --info-script*", "tar* --new-volume-script*", "tar* -F*",
		"go* -toolexec*", "go* --toolexec*", "go* -exec*", "go* --exec*", "go generate*", "go tool*", "cargo* --config*",
		"curl* -o*", "curl* --output*", "curl* -K*", "curl* --config*", "wget*",
	}))
}

package sandbox

import "os"

func probeHost(h *Host) {
	sweepTemp(os.TempDir())
	h.Landlock = works(probeLandlock(h))
	if !h.Landlock.Works {
		h.LandlockABI = 0
	}
	h.Seccomp = works(probeSeccomp())
	stop, group := probeStop(h)
	h.Stop, h.Cgroup = works(stop), works(group)
	h.Bubblewrap = works(probeBubblewrap(h))
	h.Namespaces = Feature{Why: "not looked at: nothing asked for it"}
}

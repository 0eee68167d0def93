package sandbox

func probeHost(h *Host) {
	h.Landlock = works(probeLandlock(h))
	if !h.Landlock.Works {
		h.LandlockABI = 0
	}
	h.Seccomp = works(probeSeccomp())
}

package sandbox

func probeHost(h *Host) {}

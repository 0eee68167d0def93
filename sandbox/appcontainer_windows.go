package sandbox

type securityCapabilities struct{}

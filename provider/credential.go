package provider

// Credentials are what a provider proves itself with. The commands of a run are
// started without them.
type Credentials struct {
	// Values are the credentials themselves. A variable of a command's environment
	// that holds one of eight bytes or more is removed, whatever it is called.
	Values []Secret
	// Names are variables that hold a credential. They are removed by name.
	Names []string
}

// CredentialHolder is implemented by whoever has credentials: a provider, and an
// approver or a reviewer that asks one. A wrapper passes on what it wraps.
type CredentialHolder interface{ Credentials() Credentials }

// CredentialsOf collects what each of holders that is a [CredentialHolder] has.
// Others, nil among them, have none.
func CredentialsOf(holders ...any) Credentials {
	var all Credentials
	for _, h := range holders {
		if c, ok := h.(CredentialHolder); ok {
			own := c.Credentials()
			all.Values = append(all.Values, own.Values...)
			all.Names = append(all.Names, own.Names...)
		}
	}
	return all
}

package provider

import (
	"bytes"
	"encoding/json"
)

// WebAccess states what the provider may look up by itself. The zero value is
// nothing.
//
// These requests are made by the vendor, not by this process: no network rule
// of a policy is consulted for them and nobody is asked. The domain lists only
// fill in the vendor's own filter.
type WebAccess struct {
	Search bool `json:"search,omitempty"`
	Fetch  bool `json:"fetch,omitempty"`

	MaxUses        int      `json:"max_uses,omitempty"` // per kind of access; 0 leaves it to the vendor
	AllowedDomains []string `json:"allowed_domains,omitempty"`
	BlockedDomains []string `json:"blocked_domains,omitempty"`
}

// UnmarshalJSON refuses members that it does not know, as a *ConfigError: a list of
// domains that is misspelled would read as no list, which is every domain.
func (w *WebAccess) UnmarshalJSON(b []byte) error {
	type plain WebAccess
	var p plain
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return &ConfigError{Message: "web access: " + err.Error()}
	}
	*w = WebAccess(p)
	return nil
}

// Enabled reports whether anything may be looked up. Domains or a cap alone
// declare nothing.
func (w WebAccess) Enabled() bool { return w.Search || w.Fetch }

// Filter resolves the two lists to the one that a vendor takes: the block-list
// when nothing is allowed by name, else the allow-list without what is blocked.
// An allow-list that is emptied so is a *ConfigError, because sent empty it
// would read as no filter at all.
func (w WebAccess) Filter() (allowed, blocked []string, err error) {
	if len(w.AllowedDomains) == 0 {
		return nil, w.BlockedDomains, nil
	}
	drop := make(map[string]bool, len(w.BlockedDomains))
	for _, d := range w.BlockedDomains {
		drop[d] = true
	}
	for _, d := range w.AllowedDomains {
		if !drop[d] {
			allowed = append(allowed, d)
		}
	}
	if len(allowed) == 0 {
		return nil, nil, &ConfigError{Message: "every allowed web domain is blocked as well: allow one that is not, or leave web access off"}
	}
	return allowed, nil, nil
}

// Citation is a source that the answer rests on.
type Citation struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
	Text  string `json:"cited_text,omitempty"` // the passage, where the vendor quotes it
}

// ServerToolCall is a tool that the provider ran itself.
type ServerToolCall struct {
	Provider string `json:"provider"`
	Tool     string `json:"tool"`
	Error    string `json:"error,omitempty"` // the vendor's code; "" when it worked
}

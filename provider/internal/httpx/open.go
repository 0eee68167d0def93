package httpx

import (
	"net/http"
	"os"
	"time"

	"github.com/initorigin/io-harness-go/provider"
)

// Settings are what a caller states about the connection to one vendor.
type Settings struct {
	Name      string // of the provider
	BaseURL   string
	Key       provider.Secret
	Transport http.RoundTripper
	Timeout   time.Duration
	Idle      time.Duration
	Limits    provider.StreamLimits
}

// Open makes the client, and the base URL without a slash at its end. What can
// never work is a *provider.ConfigError.
func Open(s Settings) (c *Client, base string, err error) {
	problem := KeyProblem(s.Key)
	if problem == "" {
		base, problem = Base(s.BaseURL)
	}
	if problem != "" {
		return nil, "", &provider.ConfigError{Provider: s.Name, Message: problem}
	}
	return &Client{
		Name: s.Name, Secrets: []provider.Secret{s.Key}, Transport: s.Transport,
		Timeout: s.Timeout, Idle: s.Idle, Limits: s.Limits,
	}, base, nil
}

// NoKey is the error of a client that needs a key and was given none.
func NoKey(name, variable string) error {
	return &provider.ConfigError{Provider: name, Message: "no key is given: set Config.Key, or use FromEnv with " + variable}
}

// FromEnv reads key and model of a vendor from the environment. One that is
// missing or empty is a *provider.ConfigError that names it; example is a model
// of the vendor.
func FromEnv(name, keyVariable, modelVariable, example string) (key provider.Secret, model string, err error) {
	key, model = KeyFromEnv(keyVariable), os.Getenv(modelVariable)
	switch {
	case key.IsZero():
		err = &provider.ConfigError{Provider: name, Message: "the environment variable " + keyVariable + " is not set: put the key into it"}
	case model == "":
		err = &provider.ConfigError{Provider: name, Message: "the environment variable " + modelVariable + " is not set: name a model in it, such as " + example}
	}
	return key, model, err
}

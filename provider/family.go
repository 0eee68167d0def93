package provider

import "strings"

// Family says which delimiters a system prompt uses. It changes delimiters
// only: with them stripped, the prompts of all families are the same text.
type Family string

// The delimiter families.
const (
	FamilyAnthropic Family = "anthropic"
	FamilyOpenAI    Family = "openai"
	FamilyGeneric   Family = "generic"
)

// FamilyOf guesses the family from a model id.
func FamilyOf(model string) Family {
	m := strings.ToLower(model)
	switch {
	case strings.HasPrefix(m, "anthropic/"), strings.Contains(m, "claude"):
		return FamilyAnthropic
	case strings.HasPrefix(m, "openai/"), strings.Contains(m, "gpt"):
		return FamilyOpenAI
	}
	return FamilyGeneric
}

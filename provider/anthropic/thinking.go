package anthropic

import (
	"strconv"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
)

// ThinkingMode is how a request with an effort asks for thinking. The vendor's
// models take one of two ways and refuse the other.
type ThinkingMode string

// The modes.
const (
	ThinkingAuto     ThinkingMode = "auto"     // by the model's version, corrected by the vendor's refusal
	ThinkingBudget   ThinkingMode = "budget"   // a number of tokens
	ThinkingAdaptive ThinkingMode = "adaptive" // the model decides, led by the effort
)

func (m ThinkingMode) other() ThinkingMode {
	if m == ThinkingBudget {
		return ThinkingAdaptive
	}
	return ThinkingBudget
}

// baseTokens caps the answer of a request that names no cap; the vendor demands
// a number.
const baseTokens = 8192

// budgets are the tokens of thinking for each tier. The lowest is the least
// that the vendor takes.
var budgets = map[provider.Effort]int64{
	provider.EffortLow:    1024,
	provider.EffortMedium: 4096,
	provider.EffortHigh:   16384,
}

// modelVersion reads major and minor of a model id: the digits beside the
// family word. A part of more than two digits is a date. ok is false for an id
// that tells no version.
func modelVersion(id string) (major, minor int, ok bool) {
	id = strings.ToLower(id[strings.LastIndexByte(id, '/')+1:])
	if !strings.HasPrefix(id, "claude") {
		return 0, 0, false
	}
	var numbers []int
	for _, part := range strings.FieldsFunc(id, func(r rune) bool { return r == '-' || r == '.' || r == '@' || r == ':' }) {
		n, err := strconv.Atoi(part)
		if err != nil || len(part) > 2 {
			if len(numbers) > 0 {
				break
			}
			continue
		}
		numbers = append(numbers, n)
	}
	switch len(numbers) {
	case 0:
		return 0, 0, false
	case 1:
		return numbers[0], 0, true
	}
	return numbers[0], numbers[1], true
}

func atLeast(id string, major, minor int) bool {
	ma, mi, ok := modelVersion(id)
	return ok && (ma > major || (ma == major && mi >= minor))
}

// A plan is how one request is asked.
type plan struct {
	model         string
	mode          ThinkingMode // "" without thinking
	effort        provider.Effort
	schema        []byte // the projected schema of the answer, nil for none
	schemaDropped bool   // one was wanted, and this model had refused it
}

func (c *Client) plan(req *provider.Request, model string) plan {
	p := plan{model: model, effort: req.Effort}
	c.mu.Lock()
	learned, refused := c.modes[model], c.schemaNo[model]
	c.mu.Unlock()
	if req.Effort != "" {
		switch p.mode = c.cfg.Thinking; {
		case p.mode == ThinkingAuto && learned != "":
			p.mode = learned
		case p.mode == ThinkingAuto && atLeast(model, 4, 6):
			p.mode = ThinkingAdaptive
		case p.mode == ThinkingAuto:
			p.mode = ThinkingBudget
		}
	}
	// The vendor does not join a schema with citations, which web access brings.
	if req.Output != nil && atLeast(model, 4, 5) && !req.Web.Enabled() {
		if schema, ok := projectSchema(req.Output.Schema); ok && !refused {
			p.schema = schema
		} else {
			p.schemaDropped = ok && refused
		}
	}
	return p
}

package verify

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxShownViolations is how many failures an error names: more are not read, and
// mending the first usually mends the rest.
const maxShownViolations = 20

// Violation is one way in which an answer misses its schema.
type Violation struct {
	Pointer string // RFC 6901, of the value concerned; "" is the whole document
	Keyword string // the keyword that it misses; "" when the answer could not be read
	Message string // what was found and what is wanted
}

// String is one sentence.
func (v Violation) String() string {
	if v.Pointer == "" {
		return "the document: " + v.Message
	}
	return v.Pointer + ": " + v.Message
}

// OutputError lists everything by which an answer misses its schema, in the order
// of the schema's document.
type OutputError struct {
	Violations []Violation
}

// Error joins the first failures with "; " and counts the rest, in at most
// MaxOutput characters.
func (e *OutputError) Error() string {
	var out []string
	for _, v := range e.Violations[:min(len(e.Violations), maxShownViolations)] {
		out = append(out, v.String())
	}
	if n := len(e.Violations) - maxShownViolations; n > 0 {
		out = append(out, fmt.Sprintf("and %d more", n))
	}
	return bound("output: "+strings.Join(out, "; "), MaxOutput)
}

// judge lists the failures of one candidate; none means that it conforms.
func (s *Schema) judge(c candidate) []Violation {
	var out []Violation
	for _, p := range c.reader.twice {
		out = append(out, Violation{p, "", "the member is stated twice, and must be stated once"})
	}
	for _, p := range c.reader.huge {
		out = append(out, Violation{p, "", "the number is too large to be compared exactly"})
	}
	if out != nil {
		return out
	}
	err := s.compiled.Validate(c.value.plain())
	if err == nil {
		return nil
	}
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return []Violation{{"", "", oneLine(err.Error())}}
	}
	var found []located
	s.collect(failed, c.value, &found)
	slices.SortStableFunc(found, func(a, b located) int { return slices.CompareFunc(a.rank, b.rank, cmp.Compare[int]) })
	for _, l := range found {
		out = append(out, l.Violation)
	}
	return out
}

// located is a failure with its place in the order of the schema's document.
type located struct {
	Violation
	rank []int
}

func (s *Schema) collect(e *jsonschema.ValidationError, root *jsonValue, out *[]located) {
	for _, cause := range e.Causes {
		s.collect(cause, root, out)
	}
	if len(e.Causes) > 0 {
		return
	}
	n, v, rank := s.root.locate(root, e.InstanceLocation)
	add := func(word string, sub int, below []string, message string) {
		*out = append(*out, located{
			Violation{pointer(slices.Concat(e.InstanceLocation, below)), word, message},
			append(slices.Clone(rank), slices.Index(n.order, word), sub),
		})
	}
	one := func(message string) { add(strings.Join(e.ErrorKind.KeywordPath(), "/"), 0, nil, message) }
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		one(fmt.Sprintf("found %s, want %s", found(v), wanted(n.types)))
	case *kind.Required:
		for _, name := range k.Missing {
			add("required", slices.Index(n.required, name), nil, "the member "+strconv.Quote(name)+" is missing")
		}
	case *kind.AdditionalProperties:
		for i, m := range v.members {
			if n.properties[m.name] == nil {
				add("additionalProperties", i, []string{m.name}, "the member is not allowed"+allowed(n.names))
			}
		}
	case *kind.Enum:
		one(fmt.Sprintf("found %s, want one of %s", found(v), options(n.enum)))
	case *kind.Minimum:
		one(fmt.Sprintf("found %s, want at least %s", v.text, decimal(k.Want)))
	case *kind.Maximum:
		one(fmt.Sprintf("found %s, want at most %s", v.text, decimal(k.Want)))
	case *kind.MinItems:
		one(fmt.Sprintf("found %s, want at least %d", count(k.Got, "item"), k.Want))
	case *kind.MaxItems:
		one(fmt.Sprintf("found %s, want at most %d", count(k.Got, "item"), k.Want))
	case *kind.MinLength:
		one(fmt.Sprintf("found %s, want at least %d", count(k.Got, "character"), k.Want))
	case *kind.MaxLength:
		one(fmt.Sprintf("found %s, want at most %d", count(k.Got, "character"), k.Want))
	default:
		// A keyword of the table without an arm here; a test looks for one.
		one("the value is not what the schema demands")
	}
}

// locate follows an instance location through value and schema at once. rank
// holds, for each step, the place of the keyword that leads there and the place
// of the property or item under it.
func (n *shape) locate(v *jsonValue, path []string) (*shape, *jsonValue, []int) {
	var rank []int
	for _, step := range path {
		if v.kind == jsonArray {
			i, _ := strconv.Atoi(step)
			rank = append(rank, slices.Index(n.order, "items"), i)
			n, v = n.items, v.items[i]
			continue
		}
		rank = append(rank, slices.Index(n.order, "properties"), slices.Index(n.names, step))
		n, v = n.properties[step], v.member(step)
	}
	return n, v, rank
}

func article(noun string) string {
	if strings.IndexByte("aeiou", noun[0]) >= 0 {
		return "an " + noun
	}
	return "a " + noun
}

// found says what a value is, with the value where it is short.
func found(v *jsonValue) string {
	switch v.kind {
	case jsonString:
		return "the string " + strconv.Quote(clip(v.text))
	case jsonNumber:
		return "the number " + clip(v.text)
	case jsonBool:
		return strconv.FormatBool(v.truth)
	case jsonNull:
		return "null"
	}
	return article(string(v.kind))
}

func wanted(types []string) string {
	out := make([]string, len(types))
	for i, t := range types {
		if out[i] = article(t); t == "null" {
			out[i] = t
		}
	}
	return strings.Join(out, " or ")
}

const shownOptions = 20

func options(enum []*jsonValue) string {
	var out []string
	for _, v := range enum[:min(len(enum), shownOptions)] {
		switch v.kind {
		case jsonString:
			out = append(out, strconv.Quote(clip(v.text)))
		case jsonNumber:
			out = append(out, clip(v.text))
		default:
			out = append(out, found(v))
		}
	}
	if n := len(enum) - shownOptions; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

func allowed(names []string) string {
	if len(names) == 0 {
		return ": none is"
	}
	var out []string
	for _, n := range names[:min(len(names), shownOptions)] {
		out = append(out, strconv.Quote(n))
	}
	if n := len(names) - shownOptions; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return ", only " + strings.Join(out, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// decimal writes an exact number as a person would.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	n, exact := r.FloatPrec()
	if !exact {
		n = 20
	}
	return r.FloatString(n)
}

// clip shows the beginning of a text in a sentence.
func clip(s string) string {
	const most = 80
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most]) + "…"
}

package task

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/verify"
)

func TestTheZeroContractMeansTheseDefaults(t *testing.T) {
	c := New("mend it", "/work")
	if !reflect.DeepEqual(c, Contract{Goal: "mend it", Root: "/work"}) {
		t.Errorf("New sets more than it is given: %+v", c)
	}
	window, replans := c.Stall.Limits()
	for _, tc := range []struct {
		name      string
		got, want any
	}{
		{"steps", c.Budget.StepCap(), 12}, {"retries", c.Budget.RetryCap(), 2},
		{"a bound on time", c.Budget.TimeExceeded(1000 * time.Hour), false}, {"a bound on tokens", c.Budget.TokensExceeded(1 << 50), false},
		{"stall window", window, 3}, {"replans", replans, 1},
		{"reads at once", c.ParallelReads(), 10}, {"a command", c.CommandTimeout(), 15 * time.Minute}, {"the lease", c.Lease(), 30 * time.Minute},
		{"answers out of shape", c.OutputCap(), 2}, {"a turn may be an answer", c.Answers(), true},
		{"the gate", c.GateLimits(), sandbox.DefaultLimits()},
		{"one read at a time", (Contract{MaxParallelReads: 1}).ParallelReads(), 1},
		{"an answer without a retry", Contract{Budget: budget.Limits{Retries: -1}}.OutputCap(), 1},
		{"a turn whose work is checked", Contract{Verify: verify.Contains("a", "b")}.Answers(), false},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// filled is a contract in which everything that can be set is.
func filled(t *testing.T) Contract {
	t.Helper()
	var c Contract
	fill(reflect.ValueOf(&c).Elem(), "x")
	c.Verify = verify.Contains("a.txt", "b")
	shape, err := verify.ParseSchema([]byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))
	if err != nil {
		t.Fatal(err)
	}
	c.Output = shape
	return c
}

// fill sets every exported field below v, as far as it is plain data.
func fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), f.Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("go"), one)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	}
}

// shared are the places at which a and b hold the same memory.
func shared(a, b reflect.Value, at string) (places []string) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				places = append(places, shared(a.Field(i), b.Field(i), at+"."+f.Name)...)
			}
		}
	case reflect.Slice, reflect.Map, reflect.Pointer:
		switch {
		case a.IsNil() || b.IsNil():
			return []string{at + ", which is not there"}
		case a.Pointer() == b.Pointer():
			return []string{at}
		case a.Kind() == reflect.Pointer:
			return shared(a.Elem(), b.Elem(), at)
		case a.Kind() == reflect.Slice:
			return shared(a.Index(0), b.Index(0), at+"[0]")
		}
		key := a.MapKeys()[0]
		return shared(a.MapIndex(key), b.MapIndex(key), at+"[0]")
	}
	return places
}

func TestACopySharesNothingThatCanBeChanged(t *testing.T) {
	c := filled(t)
	kept := c.Clone()
	for _, at := range shared(reflect.ValueOf(c), reflect.ValueOf(kept), "Contract") {
		if at != "Contract.Output" { // a schema cannot be changed
			t.Errorf("both hold %s", at)
		}
	}
	c.Sandbox.Reads.Deny[0], c.GateSandbox.Env.Keep[0], c.Toolchain["go"].Check[0] = "evil", "evil", "evil"
	if kept.Sandbox.Reads.Deny[0] == "evil" || kept.GateSandbox.Env.Keep[0] == "evil" || kept.Toolchain["go"].Check[0] == "evil" {
		t.Error("the copy changed with what it was made of")
	}
	none := Contract{Toolchain: toolchain.Overrides{"go": {Check: []string{}}}}
	if got := none.Clone().Toolchain["go"]; got.Check == nil || got.Build != nil {
		t.Errorf("%+v: an empty command and none are two things", got)
	}
}

// What another process goes on under is the whole contract.
func TestEveryFieldOfAContractIsStored(t *testing.T) {
	c := filled(t)
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Contract{Goal: c.Goal, Root: c.Root, Tools: c.Tools}.Restore(raw)
	if err != nil {
		t.Fatal(err)
	}
	was, is := reflect.ValueOf(c), reflect.ValueOf(back)
	for i := range was.NumField() {
		name := was.Type().Field(i).Name
		a, err := json.Marshal(was.Field(i).Interface())
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(is.Field(i).Interface())
		if err != nil || string(a) != string(b) || is.Field(i).IsZero() {
			t.Errorf("%s was %s and came back as %s, %v", name, a, b, err)
		}
	}
	if _, err := (Contract{}).Restore([]byte(`{"retry":{"bas_ms":1}}`)); err == nil || !strings.Contains(err.Error(), "bas_ms") {
		t.Errorf("a member that nobody knows: %v", err)
	}
}

func TestASchemaThatNobodyMadeIsRefused(t *testing.T) {
	c := New("g", t.TempDir())
	c.Output = &verify.Schema{}
	var bad *InvalidError
	var schema *verify.InvalidSchemaError
	if err := c.Validate(); !errors.As(err, &bad) || bad.Field != "Output" || !errors.As(err, &schema) {
		t.Errorf("%v, want an *InvalidError of Output", err)
	}
}

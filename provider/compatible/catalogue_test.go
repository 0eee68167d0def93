package compatible_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/compatible"
)

func TestCatalogueIsAskedOnceWithTheKey(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Document(`[{"id":"a","pricing":{"prompt":"0.000001"}},{"id":"b"}]`))
	c := client(t, v, nil)
	for range 2 {
		table, err := c.PriceTable(context.Background())
		if err != nil || len(table.Prices) != 1 || table.AsOf != time.Now().UTC().Format(time.DateOnly) {
			t.Fatalf("table = %+v, %v", table, err)
		}
	}
	a := v.Asked()
	if len(a) != 1 || a[0].Path != "/deep/v1/models" || a[0].Header.Get("Authorization") != "Bearer "+canary {
		t.Errorf("asked %v", a)
	}
}

func TestAnEndpointWithoutACatalogueSaysSo(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Status(404, "not here"), testkit.Document(`<html>`))
	c := client(t, v, nil)
	if rows, err := c.Models(context.Background()); rows != nil || !errors.Is(err, provider.InvalidRequest) {
		t.Errorf("got %v, %v; want the 404 as an error", rows, err)
	}
	if _, err := c.Models(context.Background()); !errors.Is(err, provider.Malformed) {
		t.Errorf("got %v, want Malformed", err)
	}
}

func TestReferencePrices(t *testing.T) {
	reference := testkit.NewVendor(t, testkit.Document(`{"data":[
		{"id":"alpha/x","pricing":{"prompt":"0.000001"}},{"id":"beta/x","pricing":{"prompt":"0.000002"}},
		{"id":"vendor/only","pricing":{"prompt":"0.000003"}},{"id":"a/b/c","pricing":{"prompt":"0.000004"}},
		{"id":"Exact","pricing":{"prompt":"0.000005"}},{"id":"vendor/unpriced"},{"id":"plain","pricing":{"prompt":"0.000006"}},
		{"id":"own","pricing":{"prompt":"0.000007"}}]}`))
	ref := &compatible.Reference{At: reference.URL + "/models", Transport: reference.Transport()}
	if len(reference.Asked()) != 0 {
		t.Error("the reference was asked before anybody wanted a price")
	}
	v := testkit.NewVendor(t, testkit.Document(`{"data":[{"id":"x"},{"id":"alpha/x"},{"id":"ONLY"},{"id":"b/c"},{"id":"exact"},{"id":"own","pricing":{"prompt":"0"}},{"id":"unpriced"},{"id":"other/plain"}]}`))
	c := client(t, v, func(c *compatible.Config) { c.Reference = ref })
	if e := c.Endpoints(); e[len(e)-1] != reference.URL+"/models" {
		t.Errorf("endpoints %v lack the reference", e)
	}
	rows, err := c.Models(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"alpha/x": 1_000_000, "ONLY": 3_000_000, "exact": 5_000_000, "own": 0}
	for _, r := range rows {
		price, priced := want[r.ID]
		switch {
		case (r.Price != nil) != priced:
			t.Errorf("%s: price %v, want one: %v", r.ID, r.Price, priced)
		case priced && r.Price.Input != price:
			t.Errorf("%s: %d, want %d", r.ID, r.Price.Input, price)
		case priced && r.ID != "own" && r.PriceSource != provider.PriceFromReference("127.0.0.1"):
			t.Errorf("%s: source %q", r.ID, r.PriceSource)
		case r.ID == "own" && r.PriceSource != provider.PriceFromVendor:
			t.Errorf("%s: source %q", r.ID, r.PriceSource)
		}
	}
	if a := reference.Asked(); len(a) != 1 || a[0].Header.Get("Authorization") != "" {
		t.Errorf("the reference was asked %v; want once and without the vendor's key", a)
	}
	t.Run("one that is down fails", func(t *testing.T) {
		down := testkit.NewVendor(t, testkit.Status(503, ""))
		v := testkit.NewVendor(t, testkit.Document(`{"data":[{"id":"x"}]}`))
		c := client(t, v, func(c *compatible.Config) {
			c.Reference = &compatible.Reference{At: down.URL, Transport: down.Transport()}
		})
		if _, err := c.Models(context.Background()); !errors.Is(err, provider.Server) {
			t.Errorf("error = %v, want Server", err)
		}
	})
	if h := (&compatible.Reference{At: "http://u:p@[::1]:80/x"}).Host(); h != "::1" {
		t.Errorf("host = %q", h)
	}
	if u := (&compatible.Reference{}).URL(); u != compatible.ReferenceURL {
		t.Errorf("URL = %q", u)
	}
}

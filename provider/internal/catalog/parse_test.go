package catalog

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
)

func TestDigitsAreMovedAndNeverMultiplied(t *testing.T) {
	const bad = int64(-1)
	for _, tc := range []struct {
		text   string
		places int
		want   int64
	}{
		{"0.000000015", 12, 15_000}, {"0.00000003", 12, 30_000}, {"0.00000006", 12, 60_000}, {"0.000000063", 12, 63_000},
		{"0.00000012", 12, 120_000}, {"0.00000024", 12, 240_000}, {"0.00000096", 12, 960_000}, {"0.000000966", 12, 966_000},
		{"0.00000384", 12, 3_840_000}, {"0.0000000000005", 12, 1}, {"0.0000000000004", 12, 0}, {"0.0000002574", 12, 257_400}, {"0.0000010287", 12, 1_028_700},
		{"0", 12, 0}, {"0.0", 12, 0}, {"1", 12, 1_000_000_000_000}, {"0.014", 6, 14_000}, {".5", 6, 500_000}, {"5.", 6, 5_000_000}, {"+1", 6, 1_000_000}, {" 1 ", 6, 1_000_000},
		{"1e-7", 12, 100_000}, {"1E-06", 12, 1_000_000}, {"2.5e-6", 12, 2_500_000}, {"15e-9", 12, 15_000}, {"1e+1", 6, 10_000_000},
		{"-1", 12, bad}, {"-0.1", 12, bad}, {"", 12, bad}, {".", 12, bad}, {"x", 12, bad}, {"1,5", 12, bad}, {"1.2.3", 12, bad}, {"NaN", 12, bad}, {"Inf", 12, bad}, {"0x10", 12, bad}, {"1_0", 12, bad},
		{"1e999999999", 12, bad}, {"1e", 12, bad}, {"e5", 12, bad}, {"99999999999999", 12, bad}, {"9223372036854775807", 0, math.MaxInt64}, {"9223372036854775808", 0, bad},
	} {
		got, ok := scaled(tc.text, tc.places)
		if ok != (tc.want != bad) || ok && got != tc.want {
			t.Errorf("%q by %d = %d, %v; want %d", tc.text, tc.places, got, ok, tc.want)
		}
	}
	// What the digits guard against: the same through a float loses one.
	f, err := strconv.ParseFloat("0.000000015", 64)
	if err != nil || int64(f*1e12) == 15_000 {
		t.Errorf("a float gives %d (%v); the trap of this test is gone", int64(f*1e12), err)
	}
}

func ptr[T any](v T) *T { return &v }

func TestRows(t *testing.T) {
	body := `{"data":[
		{"id":"deepseek/deepseek-chat","context_length":163840,"architecture":{"input_modalities":["text"]},"supported_parameters":["tools","x"],"top_provider":{"max_completion_tokens":8192},"pricing":{"prompt":"0.0000002574","completion":"0.0000010287"}},
		{"id":"google/gemini-2.5-pro","architecture":{"input_modalities":["text","image"]},"supported_parameters":[],"pricing":{"prompt":"0.00000125","completion":"0.00001","input_cache_read":"0.000000125","input_cache_write":"0.000000375","web_search":"0.014","overrides":[{"prompt":"1"},{"min_prompt_tokens":200000,"prompt":"0.0000025","completion":"0.000015","input_cache_read":"0.00000025"}]}},
		{"id":"auto","pricing":{"prompt":"-1","completion":"-1"}},
		{"id":"free","pricing":{"prompt":"0","completion":"0"}},
		{"id":"numbers","pricing":{"prompt":0.000001,"completion":2e-6}},
		{"id":"half rubbish","pricing":{"prompt":"0.000001","completion":"call us"}},
		{"id":"bad tier","pricing":{"prompt":"0.000001","overrides":[{"min_prompt_tokens":5,"prompt":"-1"}]}},
		{"id":"bare"},
		{"id":"aliases","max_model_len":4096,"max_completion_tokens":100,"capabilities":{"vision":true,"function_calling":false}},
		{"name":"no id"}, 7, null
	]}`
	got, err := Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.ModelInfo{
		{ID: "deepseek/deepseek-chat", ContextLength: ptr[int64](163840), MaxOutputTokens: ptr[int64](8192), AcceptsImages: ptr(false), AcceptsTools: ptr(true),
			Price: &provider.Price{Input: 257_400, Output: 1_028_700}, PriceSource: provider.PriceFromVendor},
		{ID: "google/gemini-2.5-pro", AcceptsImages: ptr(true), AcceptsTools: ptr(false),
			Price:       &provider.Price{Input: 1_250_000, Output: 10_000_000, CacheRead: 125_000, CacheWrite: 375_000, PerServerToolRequest: 14_000},
			PriceTiers:  []provider.PriceTier{{MinPromptTokens: 200_000, Price: provider.Price{Input: 2_500_000, Output: 15_000_000, CacheRead: 250_000, CacheWrite: 375_000, PerServerToolRequest: 14_000}}},
			PriceSource: provider.PriceFromVendor},
		{ID: "auto"},
		{ID: "free", Price: &provider.Price{}, PriceSource: provider.PriceFromVendor},
		{ID: "numbers", Price: &provider.Price{Input: 1_000_000, Output: 2_000_000}, PriceSource: provider.PriceFromVendor},
		{ID: "half rubbish"},
		{ID: "bad tier"},
		{ID: "bare"},
		{ID: "aliases", ContextLength: ptr[int64](4096), MaxOutputTokens: ptr[int64](100), AcceptsImages: ptr(true), AcceptsTools: ptr(false)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

func TestShapesOfLists(t *testing.T) {
	for name, in := range map[string]string{"data": `{"data":[{"id":"a"}]}`, "models": `{"models":[{"id":"a"}]}`, "bare": `[{"id":"a"}]`} {
		if rows, err := Parse([]byte(in)); err != nil || len(rows) != 1 {
			t.Errorf("%s = %v, %v", name, rows, err)
		}
	}
	if rows, err := Parse([]byte(`{"data":[]}`)); err != nil || rows == nil || len(rows) != 0 {
		t.Errorf("an empty list = %v, %v; want an empty catalogue and no error", rows, err)
	}
	for name, in := range map[string]string{"page": `<html>`, "object": `{"hello":1}`, "text": `"x"`, "nothing": ``} {
		if _, err := Parse([]byte(in)); !errors.Is(err, provider.Malformed) {
			t.Errorf("%s = %v, want Malformed", name, err)
		}
	}
	if _, err := Parse([]byte(`{"error":{"code":401,"message":"no"}}`)); !errors.Is(err, provider.Auth) {
		t.Errorf("an error in a success = %v, want Auth", err)
	}
}

func TestACatalogueIsReadOnceAndAFailureIsNot(t *testing.T) {
	var c Cache
	reads := 0
	load := func(fail bool) func(context.Context) ([]provider.ModelInfo, error) {
		return func(context.Context) ([]provider.ModelInfo, error) {
			reads++
			if fail {
				return nil, errors.New("down")
			}
			return []provider.ModelInfo{{ID: "a"}}, nil
		}
	}
	ctx := context.Background()
	if _, err := c.Get(ctx, load(true)); err == nil {
		t.Error("no error")
	}
	for range 3 {
		rows, err := c.Get(ctx, load(false))
		if err != nil || len(rows) != 1 || rows[0].ID != "a" {
			t.Errorf("rows = %v, %v", rows, err)
		}
		rows[0].ID = "meddled"
	}
	if reads != 2 {
		t.Errorf("read %d times, want the failure and one success", reads)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"a","pricing":{"prompt":"1e-7","overrides":[{"min_prompt_tokens":1,"prompt":2}]}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, err := Parse(b)
		if err != nil {
			return
		}
		for _, r := range rows {
			if r.ID == "" || (r.Price != nil) != (r.PriceSource != "") {
				t.Fatalf("row %+v", r)
			}
		}
	})
}

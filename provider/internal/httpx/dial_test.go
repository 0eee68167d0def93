package httpx_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
)

func TestEveryAddressIsJudgedBeforeItIsDialled(t *testing.T) {
	refusal := errors.New("not that address")
	for _, refuse := range []bool{false, true} {
		v := testkit.NewVendor(t, testkit.Stream("[DONE]"))
		tr := httpx.NewTransport()
		defer tr.CloseIdleConnections()
		c := &httpx.Client{Name: "test", Transport: tr}
		var hosts []string
		ctx := provider.WithDialCheck(context.Background(), func(host string, addr netip.AddrPort) error {
			hosts = append(hosts, host)
			if !addr.Addr().IsLoopback() {
				t.Errorf("judged %v, want the address of the server", addr)
			}
			if refuse {
				return refusal
			}
			return nil
		})
		err := c.Post(ctx, v.URL, nil, nil, httpx.Handlers{Event: func(sse.Event) (bool, error) { return true, nil }})
		if len(hosts) != 1 || hosts[0] != "127.0.0.1" {
			t.Errorf("judged for %v, want once for the host", hosts)
		}
		if _, ok := provider.AsError(err); ok || refuse != errors.Is(err, refusal) || !refuse && err != nil {
			t.Errorf("refused %v: error %v", refuse, err)
		}
		if n := len(v.Asked()); (n == 0) != refuse {
			t.Errorf("refused %v: the server was asked %d times", refuse, n)
		}
	}
}

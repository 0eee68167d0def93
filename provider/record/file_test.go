package record

import (
	"errors"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
)

func TestARecordingIsServedByItsOwnSeries(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"0.4.1", "0.4.9", true}, {"0.4.1", "0.5.0", false}, {"1.4.1", "0.4.1", false}, {"0.4.1-rc.1", "0.4.0", true},
		{"devel", "0.5.0", true}, {"", "0.5.0", true}, {"0.4.1", "devel", true}, {"x.y.z", "0.4.1", true},
	} {
		if got := sameSeries(tc.a, tc.b); got != tc.same {
			t.Errorf("%q beside %q: %v", tc.a, tc.b, got)
		}
	}
}

func TestARecordingOfAnotherSeriesNamesBothVersions(t *testing.T) {
	defer func(v func() string) { ownVersion = v }(ownVersion)
	ownVersion = func() string { return "0.5.2" }
	_, err := Parse([]byte(`{"harness":"0.4.1","format":1,"exchanges":[]}`))
	var ce *provider.ConfigError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "0.4.1") || !strings.Contains(err.Error(), "0.5.2") {
		t.Errorf("error %v", err)
	}
	if _, err := Parse([]byte(`{"harness":"0.5.0","format":1,"exchanges":[]}`)); err != nil {
		t.Error(err)
	}
}

package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsThatOfTheModuleAndNotOfTheProgram(t *testing.T) {
	for _, tc := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"a program that requires it", debug.BuildInfo{Main: debug.Module{Path: "example.com/app", Version: "v9.9.9"}, Deps: []*debug.Module{{Path: "x", Version: "v1.0.0"}, {Path: module, Version: "v0.4.1"}}}, "0.4.1"},
		{"a commit between two versions", debug.BuildInfo{Deps: []*debug.Module{{Path: module, Version: "v0.4.2-0.20260101000000-abcdefabcdef"}}}, "0.4.2-0.20260101000000-abcdefabcdef"},
		{"replaced by a directory", debug.BuildInfo{Deps: []*debug.Module{{Path: module, Version: "v0.4.1", Replace: &debug.Module{Path: "../here"}}}}, "devel"},
		{"its own command", debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.4.1"}}, "0.4.1"},
		{"its own checkout", debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, "devel"},
		{"its own tests", debug.BuildInfo{Main: debug.Module{Path: module}}, "devel"},
		{"a program that is not known", debug.BuildInfo{Main: debug.Module{Path: "example.com/app", Version: "v1.2.3"}}, "devel"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := of(&tc.info); got != tc.want {
				t.Errorf("version %q, want %q", got, tc.want)
			}
		})
	}
}

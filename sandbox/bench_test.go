package sandbox

import "testing"

func BenchmarkTrue(b *testing.B) {
	ws := b.TempDir()
	for _, bc := range []struct {
		name string
		p    Profile
	}{
		{"contained", Profile{Workspace: ws}},
		{"namespaces", forced(Profile{Workspace: ws}, RungNamespaces)},
		{"floor", Profile{Workspace: ws, ForceFloor: true}},
		{"full access", Profile{Workspace: ws, Mode: FullAccess}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Run(b.Context(), Cmd{Argv: []string{"true"}}, bc.p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

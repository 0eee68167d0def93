package tool

import "testing"

func TestReservedNames(t *testing.T) {
	names := Reserved()
	if len(names) != 55 {
		t.Errorf("%d reserved names, want 55", len(names))
	}
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] || !IsReserved(n) || len(n) > 64 {
			t.Errorf("%q is there twice, not reserved, or too long", n)
		}
		seen[n] = true
	}
	for _, free := range []string{"git_blame", "lsp_foo", "read_file2", "Read_File", "", "greps", "exec "} {
		if IsReserved(free) {
			t.Errorf("%q is reserved, and it only resembles a name that is", free)
		}
	}
	names[0] = "changed"
	if !IsReserved("write_file") {
		t.Error("a caller's slice is the list itself")
	}
}

package toolchain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func project(names ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, n := range names {
		m[n] = &fstest.MapFile{}
	}
	return m
}

// text is every command on one line, as the table of the guide shows them.
func (t Toolchain) text() string {
	var out []string
	for _, c := range t.commands() {
		s := strings.Join(*c.argv, " ")
		if s == "" {
			s = "-"
		}
		out = append(out, s)
	}
	return strings.Join(out, " | ")
}

func TestEveryRow(t *testing.T) {
	for _, tc := range []struct {
		files                      []string
		ecosystem, marker, manager string
		commands                   string
		check                      string
	}{
		{[]string{"Cargo.toml"}, "cargo", "Cargo.toml", "cargo", "cargo fetch | cargo build | cargo test | cargo clippy --all-targets | cargo fmt | cargo run", "cargo check --message-format=json"},
		{[]string{"deno.json"}, "deno", "deno.json", "deno", "- | deno check . | deno test | deno lint | deno fmt | deno task start", "deno check ."},
		{[]string{"deno.jsonc"}, "deno", "deno.jsonc", "deno", "- | deno check . | deno test | deno lint | deno fmt | deno task start", "deno check ."},
		{[]string{"package.json"}, "node", "package.json", "npm", "npm install | npm run build | npm test | npm run lint | npm run format | npm start", "tsc --noEmit"},
		{[]string{"package.json", "bun.lockb"}, "node", "package.json", "bun", "bun install | bun run build | bun test | bun run lint | bun run format | bun start", "tsc --noEmit"},
		{[]string{"package.json", "bun.lock", "yarn.lock"}, "node", "package.json", "bun", "bun install | bun run build | bun test | bun run lint | bun run format | bun start", "tsc --noEmit"},
		{[]string{"package.json", "pnpm-lock.yaml", "yarn.lock"}, "node", "package.json", "pnpm", "pnpm install | pnpm run build | pnpm test | pnpm run lint | pnpm run format | pnpm start", "tsc --noEmit"},
		{[]string{"package.json", "yarn.lock"}, "node", "package.json", "yarn", "yarn install | yarn run build | yarn test | yarn run lint | yarn run format | yarn start", "tsc --noEmit"},
		{[]string{"go.mod"}, "go", "go.mod", "go", "- | go build ./... | go test ./... | go vet ./... | gofmt -w . | go run .", "go build -o " + os.DevNull + " ./..."},
		{[]string{"pyproject.toml"}, "python", "pyproject.toml", "uv", "uv sync | - | uv run pytest | uv run ruff check | uv run ruff format | uv run python -m main", "pyright"},
		{[]string{"requirements.txt", "uv.lock"}, "python", "requirements.txt", "uv", "uv sync | - | uv run pytest | uv run ruff check | uv run ruff format | uv run python -m main", "pyright"},
		{[]string{"pyproject.toml", "poetry.lock"}, "python", "pyproject.toml", "poetry", "poetry install | - | poetry run pytest | poetry run ruff check | poetry run ruff format | poetry run python -m main", "pyright"},
		{[]string{"requirements.txt"}, "python", "requirements.txt", "pip", "python -m pip install -r requirements.txt | - | python -m pytest | python -m ruff check | python -m ruff format | python -m main", "pyright"},
		{[]string{"pom.xml"}, "maven", "pom.xml", "mvn", "mvn -B dependency:go-offline | mvn -B compile | mvn -B test | - | mvn -B formatter:format | mvn -B exec:java", ""},
		{[]string{"build.gradle"}, "gradle", "build.gradle", "gradle", "- | gradle build | gradle test | gradle check | - | gradle run", ""},
		{[]string{"build.gradle.kts"}, "gradle", "build.gradle.kts", "gradle", "- | gradle build | gradle test | gradle check | - | gradle run", ""},
		{[]string{"mix.exs"}, "elixir", "mix.exs", "mix", "mix deps.get | mix compile | mix test | mix credo | mix format | mix run", ""},
		{[]string{"Gemfile"}, "ruby", "Gemfile", "bundler", "bundle install | - | bundle exec rake test | bundle exec rubocop | bundle exec rubocop -a | bundle exec ruby main.rb", ""},
		{[]string{"composer.json"}, "php", "composer.json", "composer", "composer install | - | composer test | composer lint | - | php -S 127.0.0.1:8000", ""},
		{[]string{"Package.swift"}, "swift", "Package.swift", "swift", "swift package resolve | swift build | swift test | - | swift-format -i -r Sources | swift run", ""},
		{[]string{"CMakeLists.txt"}, "cmake", "CMakeLists.txt", "cmake", "- | cmake --build build | ctest --test-dir build | - | - | -", ""},
		{[]string{"App.csproj"}, "dotnet", "*.csproj", "dotnet", "dotnet restore | dotnet build | dotnet test | dotnet format --verify-no-changes | dotnet format | dotnet run", ""},
		{[]string{"All.sln"}, "dotnet", "*.csproj", "dotnet", "dotnet restore | dotnet build | dotnet test | dotnet format --verify-no-changes | dotnet format | dotnet run", ""},
		{[]string{"Makefile"}, "make", "Makefile", "make", "- | make | make test | make lint | make format | make run", ""},
	} {
		t.Run(strings.Join(tc.files, "+"), func(t *testing.T) {
			c, ok := DetectFS(project(tc.files...))
			if !ok || c.Ecosystem != tc.ecosystem || c.Marker != tc.marker || c.Manager != tc.manager {
				t.Fatalf("DetectFS = %+v, %t, want %s by %s with %s", c, ok, tc.ecosystem, tc.marker, tc.manager)
			}
			if got := c.text(); got != tc.commands {
				t.Errorf("commands are\n%s\nwant\n%s", got, tc.commands)
			}
			if got := strings.Join(c.Check, " "); got != tc.check {
				t.Errorf("check is %q, want %q", got, tc.check)
			}
		})
	}
	if n := len(Ecosystems()); n != 14 {
		t.Errorf("%d ecosystems, want 14", n)
	}
}

func TestOrderOfDetection(t *testing.T) {
	order := []string{
		"Cargo.toml", "deno.json", "deno.jsonc", "package.json", "go.mod", "pyproject.toml", "requirements.txt", "pom.xml",
		"build.gradle", "build.gradle.kts", "mix.exs", "Gemfile", "composer.json", "Package.swift", "CMakeLists.txt", "x.csproj", "Makefile",
	}
	for i := range order {
		first, ok := DetectFS(project(order[i]))
		if !ok {
			t.Fatalf("%s alone is not detected", order[i])
		}
		both, ok := DetectFS(project(order[i:]...))
		if !ok || both.Ecosystem != first.Ecosystem {
			t.Errorf("with everything after %s: %s, want %s", order[i], both.Ecosystem, first.Ecosystem)
		}
	}
}

func TestNothingIsGuessed(t *testing.T) {
	for _, fsys := range []fstest.MapFS{
		project(), project("main.go", "README.md", "cargo.toml", "src/Cargo.toml", "makefile"),
		{"go.mod": &fstest.MapFile{Mode: os.ModeDir | 0o755}}, {"x.csproj": &fstest.MapFile{Mode: os.ModeDir | 0o755}},
	} {
		if c, ok := DetectFS(fsys); ok || !c.IsZero() || c.Describe() != "" {
			t.Errorf("DetectFS of %v = %+v, want nothing", fsys, c)
		}
	}
	if _, ok := Detect(filepath.Join(t.TempDir(), "none")); ok {
		t.Error("a directory that does not exist is a project")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if c, ok := Detect(dir); !ok || c.Ecosystem != "go" {
		t.Errorf("Detect = %+v, %t", c, ok)
	}
}

func TestDescribeIsOneLineWithTheKnownCommands(t *testing.T) {
	c, _ := DetectFS(project("go.mod"))
	d := c.Describe()
	for _, want := range []string{"go project", "go.mod", "build: go build ./...", "test: go test ./...", "run: go run .", "check before"} {
		if !strings.Contains(d, want) {
			t.Errorf("%q lacks %q", d, want)
		}
	}
	if strings.Contains(d, "install") || strings.Contains(d, "\n") {
		t.Errorf("%q tells of a command that there is not, or has several lines", d)
	}
	if i, j := strings.Index(d, "build:"), strings.Index(d, "test:"); i > j {
		t.Errorf("%q is out of order", d)
	}
}

func TestOverride(t *testing.T) {
	c, _ := DetectFS(project("go.mod"))
	other := "task"
	o := Overrides{
		"go":    {Manager: &other, Test: []string{"task", "test"}, Lint: []string{}, Check: []string{"go", "vet", "./..."}},
		"cargo": {Test: []string{"never"}},
	}
	got := o.Apply(c)
	if got.Manager != "task" || strings.Join(got.Test, " ") != "task test" || got.Lint != nil || strings.Join(got.Check, " ") != "go vet ./..." {
		t.Errorf("Apply = %+v", got)
	}
	if strings.Join(got.Build, " ") != "go build ./..." {
		t.Errorf("Build = %q: what is not overridden must stay", got.Build)
	}
	if c.Manager != "go" || c.Lint == nil {
		t.Errorf("the original changed: %+v", c)
	}
	o["go"].Test[0] = "changed"
	if got.Test[0] != "task" {
		t.Error("the result shares the caller's slice")
	}
	if same := o.Apply(Toolchain{Ecosystem: "make", Test: []string{"make"}}); same.Test[0] != "make" {
		t.Errorf("an override of another ecosystem applied: %+v", same)
	}
}

func TestToolchainGoesThroughJSON(t *testing.T) {
	for i := range table {
		c := build(&table[i], table[i].managers[0], table[i].markers[0])
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Toolchain
		if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%s comes back as %+v, %v", b, back, err)
		}
	}
}

func TestCommandsOfTwoDetectionsAreNotShared(t *testing.T) {
	a, _ := DetectFS(project("go.mod"))
	a.Test[0] = "changed"
	if b, _ := DetectFS(project("go.mod")); b.Test[0] != "go" {
		t.Error("changing one toolchain changed the table")
	}
}

func TestNoCheckerCanInstallSomething(t *testing.T) {
	for i := range table {
		for _, m := range table[i].managers {
			c := build(&table[i], m, table[i].markers[0])
			if len(c.Check) > 0 && slices.ContainsFunc([]string{"npx", "bunx", "pnpx", "uvx", "pipx"}, func(s string) bool { return c.Check[0] == s }) {
				t.Errorf("%s is checked with %q", c.Ecosystem, c.Check)
			}
		}
	}
}

package toolchain

import "strings"

// row is one kind of project. Commands are written as they are typed, with M for
// the manager, and split at spaces: no argument here holds one.
type row struct {
	markers   []string // in the order in which they are looked for; a star stands for a stem
	shown     string   // the marker that is told; empty: the one that was found
	ecosystem string
	managers  []manager // the first whose file exists, the last one having none
	commands  commands
}

// manager is a program that installs and runs; lock is the file that tells that
// it is the one in use.
type manager struct {
	name   string
	locks  []string
	marker string    // only with this marker; empty: with any
	own    *commands // in place of the row's
}

type commands struct{ install, build, test, lint, format, run, check string }

// table is in the order of detection: the first row with a marker in the root is
// the project, and Makefile, which any project may have beside its own, is last.
var table = [...]row{
	{
		markers: []string{"Cargo.toml"}, ecosystem: "cargo", managers: []manager{{name: "cargo"}},
		commands: commands{"M fetch", "M build", "M test", "M clippy --all-targets", "M fmt", "M run", "M check --message-format=json"},
	},
	{
		markers: []string{"deno.json", "deno.jsonc"}, ecosystem: "deno", managers: []manager{{name: "deno"}},
		commands: commands{"", "M check .", "M test", "M lint", "M fmt", "M task start", "M check ."},
	},
	{
		markers: []string{"package.json"}, ecosystem: "node",
		managers: []manager{
			{name: "bun", locks: []string{"bun.lockb", "bun.lock"}},
			{name: "pnpm", locks: []string{"pnpm-lock.yaml"}},
			{name: "yarn", locks: []string{"yarn.lock"}},
			{name: "npm"},
		},
		commands: commands{"M install", "M run build", "M test", "M run lint", "M run format", "M start", "tsc --noEmit"},
	},
	{
		// go build of a single main package would leave its program behind, so the
		// check discards what it builds.
		markers: []string{"go.mod"}, ecosystem: "go", managers: []manager{{name: "go"}},
		commands: commands{"", "M build ./...", "M test ./...", "M vet ./...", "gofmt -w .", "M run .", "M build -o NULL ./..."},
	},
	{
		markers: []string{"pyproject.toml", "requirements.txt"}, ecosystem: "python",
		managers: []manager{
			{name: "uv", locks: []string{"uv.lock"}, own: &uvCommands},
			{name: "poetry", locks: []string{"poetry.lock"}, own: &poetryCommands},
			{name: "uv", marker: "pyproject.toml", own: &uvCommands},
			{name: "pip"},
		},
		commands: commands{"python -m pip install -r requirements.txt", "", "python -m pytest", "python -m ruff check", "python -m ruff format", "python -m main", "pyright"},
	},
	{
		markers: []string{"pom.xml"}, ecosystem: "maven", managers: []manager{{name: "mvn"}},
		commands: commands{"M -B dependency:go-offline", "M -B compile", "M -B test", "", "M -B formatter:format", "M -B exec:java", ""},
	},
	{
		markers: []string{"build.gradle", "build.gradle.kts"}, ecosystem: "gradle", managers: []manager{{name: "gradle"}},
		commands: commands{"", "M build", "M test", "M check", "", "M run", ""},
	},
	{
		markers: []string{"mix.exs"}, ecosystem: "elixir", managers: []manager{{name: "mix"}},
		commands: commands{"M deps.get", "M compile", "M test", "M credo", "M format", "M run", ""},
	},
	{
		markers: []string{"Gemfile"}, ecosystem: "ruby", managers: []manager{{name: "bundler"}},
		commands: commands{"bundle install", "", "bundle exec rake test", "bundle exec rubocop", "bundle exec rubocop -a", "bundle exec ruby main.rb", ""},
	},
	{
		markers: []string{"composer.json"}, ecosystem: "php", managers: []manager{{name: "composer"}},
		commands: commands{"M install", "", "M test", "M lint", "", "php -S 127.0.0.1:8000", ""},
	},
	{
		markers: []string{"Package.swift"}, ecosystem: "swift", managers: []manager{{name: "swift"}},
		commands: commands{"M package resolve", "M build", "M test", "", "swift-format -i -r Sources", "M run", ""},
	},
	{
		markers: []string{"CMakeLists.txt"}, ecosystem: "cmake", managers: []manager{{name: "cmake"}},
		commands: commands{"", "M --build build", "ctest --test-dir build", "", "", "", ""},
	},
	{
		markers: []string{"*.csproj", "*.fsproj", "*.sln"}, shown: "*.csproj", ecosystem: "dotnet", managers: []manager{{name: "dotnet"}},
		commands: commands{"M restore", "M build", "M test", "M format --verify-no-changes", "M format", "M run", ""},
	},
	{
		markers: []string{"Makefile"}, ecosystem: "make", managers: []manager{{name: "make"}},
		commands: commands{"", "M", "M test", "M lint", "M format", "M run", ""},
	},
}

var (
	uvCommands     = commands{"uv sync", "", "uv run pytest", "uv run ruff check", "uv run ruff format", "uv run python -m main", "pyright"}
	poetryCommands = commands{"poetry install", "", "poetry run pytest", "poetry run ruff check", "poetry run ruff format", "poetry run python -m main", "pyright"}
)

func (c commands) argv(text, manager, null string) []string {
	if text == "" {
		return nil
	}
	argv := strings.Fields(text)
	for i, a := range argv {
		switch a {
		case "M":
			argv[i] = manager
		case "NULL":
			argv[i] = null
		}
	}
	return argv
}

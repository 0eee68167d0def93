package trace

// Origin says who or what the text of an observation comes from. It is a fact of
// the record and never a grant: no rule reads it. Its value is the stored text.
type Origin string

// The origins.
const (
	OriginFile     Origin = "file"     // what lies in the workspace: reads, searches, listings
	OriginShell    Origin = "shell"    // what a program printed: commands, git, checks
	OriginWeb      Origin = "web"      // a page or an answer from a network
	OriginMCP      Origin = "mcp"      // what an MCP server brought
	OriginLSP      Origin = "lsp"      // what a language server said
	OriginTool     Origin = "tool"     // what a registered tool brought that states nothing else
	OriginAgent    Origin = "agent"    // the model's own words of an earlier turn
	OriginOperator Origin = "operator" // the words of the person that the run works for
	OriginProse    Origin = "prose"    // the harness's own words: refusals, errors, summaries
)

// Known reports whether o is one of the origins of this version.
func (o Origin) Known() bool {
	switch o {
	case OriginFile, OriginShell, OriginWeb, OriginMCP, OriginLSP, OriginTool, OriginAgent, OriginOperator, OriginProse:
		return true
	}
	return false
}

// External reports whether o is a place outside the machine and its operator,
// where anybody may have written the text. The model is shown such text in a
// frame that says so.
func (o Origin) External() bool {
	switch o {
	case OriginWeb, OriginMCP, OriginLSP:
		return true
	}
	return false
}

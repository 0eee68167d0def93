package tool

import "slices"

// reserved are the names of the library's own tools, in every build, whether or
// not the program imports the package that brings one: a registered tool must
// not change its meaning when an import is added.
var reserved = [...]string{
	"write_file", "edit_file", "patch_file", "check",
	"exec", "shell", "shell_start", "shell_poll", "shell_kill",
	"grep", "find", "list_dir", "read_file", "read_skill",
	"remember", "forget", "todo_write",
	"ask_question", "ask_questions", "propose_plan",
	"git_log", "git_status", "git_diff", "git_add", "git_commit", "git_branch", "git_worktree",
	"lsp_definition", "lsp_references", "lsp_symbols", "lsp_hover", "lsp_rename",
	"browser_navigate", "browser_read", "browser_screenshot", "browser_click", "browser_type", "browser_scroll",
	"view_image",
	"xlsx_read", "xlsx_sheets", "xlsx_write", "xlsx_set_cell",
	"docx_read", "docx_write", "pptx_read",
	"pdf_read", "pdf_write", "pdf_watermark", "pdf_fill_form",
	"barcode_decode",
	"spawn_agent", "send_message", "read_messages",
	"run_program",
}

// Reserved lists the names that a registered tool may not have. The slice is the
// caller's own.
func Reserved() []string { return slices.Clone(reserved[:]) }

// IsReserved reports whether name is one of Reserved. Names that merely resemble
// one are free.
func IsReserved(name string) bool { return slices.Contains(reserved[:], name) }

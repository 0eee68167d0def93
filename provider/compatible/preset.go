package compatible

import (
	"fmt"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
)

// Auth says how the key is shown to the endpoint.
type Auth string

// The ways.
const (
	AuthBearer Auth = "bearer" // Authorization: Bearer, the default
	AuthNone   Auth = "none"   // no credential header at all; some local servers refuse an empty one
)

// Quirks is what a vendor does differently from the plain wire. The zero value
// is the plain wire.
type Quirks struct {
	OmitStreamOptions bool   // the vendor refuses stream_options, which ask for usage
	ReasoningReplay   bool   // reasoning_content must go back beside tool calls
	EchoExtraContent  bool   // extra_content of a tool call must go back with it
	NoTerminalSignal  bool   // the server ends a stream without saying so; a cut one then looks whole
	OutputSchema      bool   // the vendor takes response_format with a schema
	MaxTokensField    string // key of the output cap: max_tokens, which "" means, or max_completion_tokens
}

// A PresetInfo is one row of the table of known endpoints. Vendors move
// endpoints and mend quirks; a row is this library's default and nothing more.
type PresetInfo struct {
	Name    string
	BaseURL string // the whole documented prefix; /chat/completions is appended
	Auth    Auth
	Quirks  Quirks
	KeyName string // the environment variable that users of this vendor usually set; "" for local servers
	Note    string // what a user should know
}

// presets is in the order in which it is listed: hosted, then local.
var presets = []PresetInfo{
	{Name: "cerebras", BaseURL: "https://api.cerebras.ai/v1", KeyName: "CEREBRAS_API_KEY"},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com/v1", KeyName: "DEEPSEEK_API_KEY",
		Quirks: Quirks{ReasoningReplay: true}, Note: "its thinking models want their reasoning back beside tool calls"},
	{Name: "fireworks", BaseURL: "https://api.fireworks.ai/inference/v1", KeyName: "FIREWORKS_API_KEY"},
	{Name: "gemini", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", KeyName: "GEMINI_API_KEY",
		Quirks: Quirks{EchoExtraContent: true}, Note: "the compatibility endpoint only; it wants the signatures of tool calls back"},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", KeyName: "GROQ_API_KEY"},
	{Name: "minimax", BaseURL: "https://api.minimax.io/v1", KeyName: "MINIMAX_API_KEY"},
	{Name: "mistral", BaseURL: "https://api.mistral.ai/v1", KeyName: "MISTRAL_API_KEY",
		Quirks: Quirks{OmitStreamOptions: true}, Note: "refuses keys that it does not know"},
	{Name: "moonshot", BaseURL: "https://api.moonshot.ai/v1", KeyName: "MOONSHOT_API_KEY",
		Quirks: Quirks{ReasoningReplay: true}, Note: "its thinking models want their reasoning back beside tool calls"},
	{Name: "perplexity", BaseURL: "https://api.perplexity.ai", KeyName: "PERPLEXITY_API_KEY", Note: "has no catalogue of models"},
	{Name: "qwen", BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", KeyName: "DASHSCOPE_API_KEY"},
	{Name: "together", BaseURL: "https://api.together.xyz/v1", KeyName: "TOGETHER_API_KEY"},
	{Name: "xai", BaseURL: "https://api.x.ai/v1", KeyName: "XAI_API_KEY"},
	{Name: "zhipu", BaseURL: "https://open.bigmodel.cn/api/paas/v4", KeyName: "ZHIPU_API_KEY"},

	{Name: "jan", BaseURL: "http://localhost:1337/v1", Auth: AuthNone},
	{Name: "koboldcpp", BaseURL: "http://localhost:5001/v1", Auth: AuthNone},
	{Name: "llamacpp", BaseURL: "http://localhost:8080/v1", Auth: AuthNone},
	{Name: "lmstudio", BaseURL: "http://localhost:1234/v1", Auth: AuthNone},
	{Name: "localai", BaseURL: "http://localhost:8080/v1", Auth: AuthNone},
	{Name: "ollama", BaseURL: "http://localhost:11434/v1", Auth: AuthNone},
	{Name: "sglang", BaseURL: "http://localhost:30000/v1", Auth: AuthNone,
		Note: "calls no tool at all unless it was started with a tool-call parser, and reports no error"},
	{Name: "vllm", BaseURL: "http://localhost:8000/v1", Auth: AuthNone,
		Note: "calls no tool at all unless it was started with --enable-auto-tool-choice and --tool-call-parser, and reports no error"},
}

// Presets lists the known endpoints.
func Presets() []PresetInfo {
	out := slices.Clone(presets)
	for i := range out {
		if out[i].Auth == "" {
			out[i].Auth = AuthBearer
		}
	}
	return out
}

func lookup(name string) (PresetInfo, error) {
	all := Presets()
	if i := slices.IndexFunc(all, func(p PresetInfo) bool { return p.Name == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return PresetInfo{}, &provider.ConfigError{Message: fmt.Sprintf("there is no preset %q: write one of %s, or use New with a base URL", name, strings.Join(names, ", "))}
}

// Preset is the client of a known endpoint. key may be the zero Secret for a
// local one.
func Preset(name string, key provider.Secret, model string) (*Client, error) {
	return New(Config{Preset: name, Key: key, Model: model})
}

// local is for the constructors below that need no key: they can only fail if
// the table above is wrong, which its test would have shown.
func local(name, model string) *Client {
	c, err := Preset(name, provider.Secret{}, model)
	if err != nil {
		panic(err)
	}
	return c
}

// Cerebras asks that vendor.
func Cerebras(key provider.Secret, model string) (*Client, error) {
	return Preset("cerebras", key, model)
}

// DeepSeek asks that vendor, and hands its reasoning back beside tool calls.
func DeepSeek(key provider.Secret, model string) (*Client, error) {
	return Preset("deepseek", key, model)
}

// Fireworks asks that vendor.
func Fireworks(key provider.Secret, model string) (*Client, error) {
	return Preset("fireworks", key, model)
}

// Gemini asks that vendor's compatibility endpoint.
func Gemini(key provider.Secret, model string) (*Client, error) {
	return Preset("gemini", key, model)
}

// Groq asks that vendor.
func Groq(key provider.Secret, model string) (*Client, error) {
	return Preset("groq", key, model)
}

// MiniMax asks that vendor.
func MiniMax(key provider.Secret, model string) (*Client, error) {
	return Preset("minimax", key, model)
}

// Mistral asks that vendor, without keys that it refuses.
func Mistral(key provider.Secret, model string) (*Client, error) {
	return Preset("mistral", key, model)
}

// Moonshot asks that vendor, and hands its reasoning back beside tool calls.
func Moonshot(key provider.Secret, model string) (*Client, error) {
	return Preset("moonshot", key, model)
}

// Perplexity asks that vendor, which has no catalogue of models.
func Perplexity(key provider.Secret, model string) (*Client, error) {
	return Preset("perplexity", key, model)
}

// Qwen asks that vendor's international endpoint.
func Qwen(key provider.Secret, model string) (*Client, error) {
	return Preset("qwen", key, model)
}

// Together asks that vendor.
func Together(key provider.Secret, model string) (*Client, error) {
	return Preset("together", key, model)
}

// XAI asks that vendor.
func XAI(key provider.Secret, model string) (*Client, error) {
	return Preset("xai", key, model)
}

// Zhipu asks that vendor.
func Zhipu(key provider.Secret, model string) (*Client, error) {
	return Preset("zhipu", key, model)
}

// Jan asks that server on this machine.
func Jan(model string) *Client { return local("jan", model) }

// KoboldCpp asks that server on this machine.
func KoboldCpp(model string) *Client { return local("koboldcpp", model) }

// LlamaCpp asks that server on this machine.
func LlamaCpp(model string) *Client { return local("llamacpp", model) }

// LMStudio asks that server on this machine.
func LMStudio(model string) *Client { return local("lmstudio", model) }

// LocalAI asks that server on this machine.
func LocalAI(model string) *Client { return local("localai", model) }

// Ollama asks that server on this machine.
func Ollama(model string) *Client { return local("ollama", model) }

// SGLang asks that server on this machine, which calls tools only if it was
// started with a tool-call parser.
func SGLang(model string) *Client { return local("sglang", model) }

// VLLM asks that server on this machine, which calls tools only if it was
// started with a tool-call parser.
func VLLM(model string) *Client { return local("vllm", model) }

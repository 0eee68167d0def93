package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/initorigin/io-harness-go/internal/buildinfo"
	"github.com/initorigin/io-harness-go/provider"
)

// Format is the number of the file's shape. A file with another number is not
// served.
const Format = 1

// ownVersion is a variable for the tests.
var ownVersion = buildinfo.Version

// file is a recording on disk.
type file struct {
	Harness   string     `json:"harness"` // version of the module that wrote it
	Format    int        `json:"format"`
	Provider  identity   `json:"provider"`
	Exchanges []exchange `json:"exchanges"`
}

// identity is what a prompt may depend on: a replayer that claimed to be
// another model would be asked other questions.
type identity struct {
	Name         string          `json:"name"`
	ModelHint    string          `json:"model_hint"`
	PromptFamily provider.Family `json:"prompt_family"`

	// Models are the models that each model asked for may end at, "" being none:
	// a run checks by them that no model judges its own work.
	Models map[string][]string `json:"models,omitempty"`
}

type exchange struct {
	Request  *provider.Request  `json:"request"`
	Response *provider.Response `json:"response"`
}

func (f *file) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("encode recording: %w", err)
	}
	return b.Bytes(), nil
}

func decode(b []byte) (*file, error) {
	var head struct {
		Harness string `json:"harness"`
		Format  *int   `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil || head.Format == nil {
		return nil, &provider.ConfigError{Provider: replayName, Message: "this is not a recording: record one with record.New"}
	}
	if *head.Format != Format {
		return nil, &provider.ConfigError{Provider: replayName, Message: fmt.Sprintf("the recording has format %d and this version serves format %d: record it again", *head.Format, Format)}
	}
	if own := ownVersion(); !sameSeries(head.Harness, own) {
		return nil, &provider.ConfigError{Provider: replayName, Message: fmt.Sprintf("the recording was made by version %s and this is version %s, which may ask other questions: record it again", head.Harness, own)}
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, &provider.ConfigError{Provider: replayName, Message: "the recording is damaged: " + err.Error()}
	}
	for i, e := range f.Exchanges {
		if e.Request == nil || e.Response == nil {
			return nil, &provider.ConfigError{Provider: replayName, Message: fmt.Sprintf("the recording is damaged: exchange %d lacks its request or its response", i)}
		}
		if err := tidy(e.Response); err != nil {
			return nil, &provider.ConfigError{Provider: replayName, Message: fmt.Sprintf("the recording is damaged: exchange %d: %v", i, err)}
		}
	}
	return &f, nil
}

// sameSeries reports whether two versions have one major and minor number. A
// version that is none, as of a checkout, is taken at its word.
func sameSeries(a, b string) bool {
	series := func(v string) (string, bool) {
		parts := strings.SplitN(v, ".", 3)
		if len(parts) < 3 {
			return "", false
		}
		_, err := strconv.Atoi(parts[0])
		return parts[0] + "." + parts[1], err == nil
	}
	x, okX := series(a)
	y, okY := series(b)
	return !okX || !okY || x == y
}

// tidy undoes the file's indentation inside of raw JSON and checks what a live
// provider promises about its calls.
func tidy(r *provider.Response) error {
	for i := range r.Calls {
		c := &r.Calls[i]
		var b bytes.Buffer
		if err := json.Compact(&b, c.Arguments); err != nil || c.Name == "" || b.Len() == 0 || b.Bytes()[0] != '{' {
			return errors.New("a tool call has no name or no argument object")
		}
		c.Arguments = b.Bytes()
	}
	if len(r.Carry) > 0 {
		var b bytes.Buffer
		if err := json.Compact(&b, r.Carry); err != nil {
			return err
		}
		r.Carry = b.Bytes()
	}
	return nil
}

// write replaces path by b in one step: a reader sees the old recording or the
// new one, and a crash leaves one of them. Only the owner may read it, because
// prompts are in it.
func write(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("save recording: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("save recording: %w", err), os.Remove(tmp.Name()))
		}
	}()
	if _, err = tmp.Write(b); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err = tmp.Sync(); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

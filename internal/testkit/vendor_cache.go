package testkit

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// The figures that a vendor of the Messages API documents for its cache.
const (
	cacheLeast    = 1024 // tokens of the shortest prefix that is kept
	cacheLookback = 20   // blocks in front of a mark that are looked at for a kept prefix
	cacheMarks    = 4    // most marks of one request
	cacheChars    = 4    // bytes taken for one token
)

// AnthropicCache is the prompt cache of a Messages vendor, without an expiry: a
// prefix of tools, system and messages is kept where a mark ends it, and read
// where a later request has the same bytes up to there.
type AnthropicCache struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]bool
}

// A CacheUse says what one request had of the cache, in tokens. Fresh, Read and
// Written together are the prompt.
type CacheUse struct{ Fresh, Read, Written int64 }

// Prompt is the whole prompt.
func (u CacheUse) Prompt() int64 { return u.Fresh + u.Read + u.Written }

// Ask is one request. It fails for one that the vendor would refuse.
func (c *AnthropicCache) Ask(body string) (CacheUse, error) {
	var sums [][sha256.Size]byte // of the prefix through each block
	var sizes []int64            // in tokens, likewise
	var marks []int              // blocks that end with a mark
	hash, bytes := sha256.New(), 0
	block := func(place string, raw gjson.Result) {
		text := raw.Raw
		if mark := raw.Get("cache_control"); mark.Exists() {
			marks = append(marks, len(sums))
			text = strings.Replace(text, `,"cache_control":`+mark.Raw, "", 1)
		}
		fmt.Fprintf(hash, "%s\x00%s\x00", place, text)
		bytes += len(text)
		sums = append(sums, [sha256.Size]byte(hash.Sum(nil)))
		sizes = append(sizes, int64(bytes/cacheChars))
	}
	for _, tool := range gjson.Get(body, "tools").Array() {
		block("tool", tool)
	}
	for _, text := range gjson.Get(body, "system").Array() {
		block("system", text)
	}
	for _, m := range gjson.Get(body, "messages").Array() {
		content := m.Get("content")
		if content.Type == gjson.String {
			content = gjson.Parse(`[{"type":"text","text":` + content.Raw + `}]`)
		}
		for _, b := range content.Array() {
			block(m.Get("role").Str, b)
		}
	}
	if len(marks) > cacheMarks {
		return CacheUse{}, fmt.Errorf("a maximum of %d blocks with cache_control may be provided, found %d", cacheMarks, len(marks))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[[sha256.Size]byte]bool{}
	}
	var use CacheUse
	for _, m := range marks {
		for i := m; i >= max(m-cacheLookback, 0); i-- {
			if c.kept[sums[i]] {
				use.Read = max(use.Read, sizes[i])
				break
			}
		}
	}
	for _, m := range marks {
		if sizes[m] >= cacheLeast {
			c.kept[sums[m]] = true
			use.Written = max(use.Written, sizes[m]-use.Read)
		}
	}
	use.Fresh = sizes[len(sizes)-1] - use.Read - use.Written
	return use, nil
}

// Metered is an answer of the Messages API that reports this use of the cache.
func (u CacheUse) Metered(r Reply) Reply {
	chunks := append([]Chunk(nil), r.Chunks...)
	for i, c := range chunks {
		chunks[i].Data = strings.Replace(c.Data, `"usage":{"input_tokens":11,`,
			fmt.Sprintf(`"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,`, u.Fresh, u.Read, u.Written), 1)
	}
	r.Chunks = chunks
	return r
}

package loop

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// stagedPrefix marks a binding to what an index of git holds, in place of the
// bytes of the file: git rewrites those also when only a time has changed.
const stagedPrefix = "staged "

// maxIndex is the largest index that is taken apart: half a million files.
const maxIndex = 64 << 20

// indexOf is the index file of the repository at root, also of a linked worktree,
// and with above of the nearest one that root lies in.
func indexOf(root string, above bool) string {
	dir := filepath.Join(root, ".git")
	for at := root; above && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			root, dir = at, filepath.Join(at, ".git")
			break
		}
	}
	if text, err := os.ReadFile(dir); err == nil {
		if to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: "); ok {
			if dir = filepath.FromSlash(to); !filepath.IsAbs(dir) {
				dir = filepath.Join(root, dir)
			}
		}
	}
	return filepath.Join(dir, "index")
}

// stagedIn names what the index holds: mode, object and name of every entry. An
// index that this does not understand is named by all of its bytes, which is
// stricter than it need be.
func stagedIn(index string) (string, error) {
	info, err := os.Stat(index)
	if err != nil {
		return "", err
	}
	if info.Size() > maxIndex {
		return contentOf(index)
	}
	data, err := os.ReadFile(index)
	if err != nil {
		return "", err
	}
	if sum, ok := entriesOf(data); ok {
		return stagedPrefix + sum, nil
	}
	sum := sha256.Sum256(data)
	return stagedPrefix + hex.EncodeToString(sum[:]), nil
}

// entriesOf digests the entries of an index file of version 2, 3 or 4 with SHA-1
// names: a header of 12 bytes, the entries, extensions, and a checksum.
func entriesOf(data []byte) (string, bool) {
	const header, fixed, sum = 12, 62, sha1.Size
	if len(data) < header+sum || string(data[:4]) != "DIRC" {
		return "", false
	}
	body, check := data[:len(data)-sum], data[len(data)-sum:]
	if got := sha1.Sum(body); !bytes.Equal(got[:], check) && !bytes.Equal(check, make([]byte, sum)) {
		return "", false // another object format, or a file that is being written
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return "", false
	}
	digest := sha256.New()
	rest, name := body[header:], []byte(nil)
	for range count {
		if len(rest) < fixed {
			return "", false
		}
		flags := binary.BigEndian.Uint16(rest[60:])
		size, extended := fixed, []byte(nil)
		if flags&0x4000 != 0 {
			if version < 3 || len(rest) < fixed+2 {
				return "", false
			}
			size, extended = fixed+2, rest[fixed:fixed+2]
		}
		path := rest[size:]
		if version == 4 { // as much of the name before is dropped, then what follows
			drop, n := offset(path)
			if n == 0 || drop > len(name) {
				return "", false
			}
			name, path, size = name[:len(name)-drop], path[n:], size+n
		} else {
			name = name[:0]
		}
		end := bytes.IndexByte(path, 0)
		if end < 0 {
			return "", false
		}
		name, size = append(name, path[:end]...), size+end+1
		if version < 4 { // padded with NULs to a multiple of eight
			size = (size + 7) &^ 7
		}
		if size > len(rest) {
			return "", false
		}
		digest.Write(rest[24:28])                                          // mode
		digest.Write(rest[40:60])                                          // object
		digest.Write([]byte{byte(flags >> 8 & 0xb0), byte(len(extended))}) // stage, and what is taken for unchanged
		digest.Write(extended)
		digest.Write(name)
		digest.Write([]byte{0})
		rest = rest[size:]
	}
	for len(rest) >= 8 { // extensions: those in lower case change what the entries mean
		if rest[0] >= 'a' {
			return "", false
		}
		n := binary.BigEndian.Uint32(rest[4:])
		if uint64(n)+8 > uint64(len(rest)) {
			return "", false
		}
		rest = rest[8+n:]
	}
	return hex.EncodeToString(digest.Sum(nil)), len(rest) == 0
}

// offset reads a number as git writes it in packs and indexes: seven bits a byte,
// each further byte adding one to what came before.
func offset(b []byte) (value, size int) {
	for i, c := range b {
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, i + 1
		}
		if value++; value > maxIndex {
			break
		}
	}
	return 0, 0
}

// addStaged keeps what an index holds. None counts too: something may be staged
// meanwhile.
func (b binding) addStaged(index string) {
	sum, err := stagedIn(index)
	if errors.Is(err, fs.ErrNotExist) {
		sum, err = stagedPrefix, nil
	}
	if err == nil {
		b[index] = sum
	}
}

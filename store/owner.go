package store

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// hostIdentity names this machine as long as it is up, and this process on it.
// A process id means something only inside one boot of one kernel and one pid
// namespace, so all of them are part of the name.
type hostIdentity struct {
	host    string // host name, boot and pid namespace
	short   string // host name, for people
	pid     int
	started string // start stamp of the process, in the system's own terms; empty when unknown
}

func thisHost() hostIdentity {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "localhost"
	}
	pid := os.Getpid()
	_, started := processState(pid)
	return hostIdentity{
		host:    strings.Join([]string{name, bootID(), pidNamespace()}, "/"),
		short:   name,
		pid:     pid,
		started: started,
	}
}

// newOwner names one drive. Nothing parses it; the columns beside it are what a
// probe looks at.
func (h hostIdentity) newOwner() string { return h.owners() + strings.ToLower(rand.Text()[:12]) }

// owners is how the names of all drives of this process begin.
func (h hostIdentity) owners() string { return fmt.Sprintf("%s pid %d drive ", h.short, h.pid) }

// liveness is what the operating system says about a process id.
type liveness string

const (
	alive   liveness = "alive"
	gone    liveness = "gone"
	unknown liveness = "unknown" // counts as alive: a mistake then costs a wait, never a second driver
)

// ownerGone reports whether the holder of a lease certainly no longer runs. A
// holder on another host, or in another pid namespace, is never judged.
func (h hostIdentity) ownerGone(host string, pid int64, started string) bool {
	if host != h.host || pid <= 0 || pid > 1<<31-1 {
		return false
	}
	state, now := processState(int(pid))
	switch {
	case state == gone:
		return true
	case state == alive && started != "" && now != "" && now != started:
		return true // the id belongs to somebody else by now
	}
	return false
}

func formatStart(v uint64) string { return strconv.FormatUint(v, 10) }

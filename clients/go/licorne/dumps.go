package licorne

import (
	"fmt"
	"strings"

	"licorne.dev/clients/go/licornev1"
)

// maxDumpBytes is the maximum size of a state dump that the server accepts.
const maxDumpBytes = 1024 * 1024

// wantedDump is a state dump that the server has requested in a session.
type wantedDump struct {
	at stamp
	id uint64
}

// wantDump has a state dump made in a separate goroutine, after earlier ones. The state's lock is held.
func (c *callbacks) wantDump(wanted wantedDump) {
	if c.handlers.StateDump == nil {
		return
	}
	c.dumps = append(c.dumps, wanted)
	if !c.dumping {
		c.dumping = true
		c.start(c.makeDumps)
	}
}

// makeDumps makes the requested state dumps one after another, until none is left.
func (c *callbacks) makeDumps() {
	for {
		wanted, found := c.nextDump()
		if !found {
			return
		}
		c.state.dumped(wanted.at, c.dump(wanted.id))
	}
}

// nextDump removes and returns the oldest requested dump of the current session; requests of older sessions
// are dropped. If there is none, it records that no dump is being made.
func (c *callbacks) nextDump() (wanted wantedDump, found bool) {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(c.dumps) > 0 {
		wanted, c.dumps = c.dumps[0], c.dumps[1:]
		if wanted.at == s.session.stamp && s.failure == nil {
			return wanted, true
		}
	}
	c.dumps, c.dumping = nil, false
	return wanted, false
}

// dump returns the state of the RM, or the reason why there is none.
func (c *callbacks) dump(id uint64) *licornev1.StateDump {
	dump := &licornev1.StateDump{Id: id}
	text, err := c.handlers.StateDump()
	switch {
	case err != nil:
		dump.Error = sendable(err.Error())
	case len(text) > maxDumpBytes:
		dump.Error = fmt.Sprintf("the state of the RM has %d bytes, at most %d can be sent", len(text), maxDumpBytes)
	default:
		dump.Json = strings.ToValidUTF8(text, "\uFFFD")
	}
	return dump
}

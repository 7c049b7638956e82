package licorne

import (
	"fmt"
	"strings"

	"licorne.dev/clients/go/licornev1"
)

// maxDumpBytes bounds a state dump; the server takes no larger one.
const maxDumpBytes = 1024 * 1024

// wantedDump is a state dump that the server waits for in a session.
type wantedDump struct {
	at stamp
	id uint64
}

// wantDump has a state dump made beside everything else, after those that were wanted before. The
// state's lock is held.
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

// makeDumps answers one wanted state dump after the other, until none is left.
func (c *callbacks) makeDumps() {
	for {
		wanted, found := c.nextDump()
		if !found {
			return
		}
		c.state.dumped(wanted.at, c.dump(wanted.id))
	}
}

// nextDump takes off the oldest wanted dump of the session. What an older session wanted nobody waits
// for. Without one it notes that nobody makes dumps any more.
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

// dump is the state of the RM, or says why there is none.
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

package licorne

import (
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// Handlers are the functions that the client calls. Each may be nil.
//
// One goroutine calls all handlers except Check, JudgeVictims, Dropped and StateDump, one at a time, in the
// order of the stream. A second goroutine calls Check, JudgeVictims and Dropped, one at a time, in the order
// of the server's requests; with PredicateOptions.InOrder the first goroutine calls them. StateDump always
// has its own goroutine, and runs one call at a time.
//
// No lock of the client is held during a call, so a handler may call the Update methods. A handler must not
// wait for Close or for the end of Run, because both wait for the handlers.
//
// A response is acknowledged when its handler has returned. A handler may keep its arguments, but must not
// change them.
type Handlers struct {
	// Nodes receives accepted and rejected nodes.
	Nodes func(*si.NodeResponse)
	// Applications receives accepted and rejected applications, and new states.
	Applications func(*si.ApplicationResponse)
	// Allocations receives new allocations, releases and rejected asks.
	//
	// A release with STOPPED_BY_RM is complete. With TIMEOUT, PREEMPTED_BY_SCHEDULER or PLACEHOLDER_REPLACED
	// the server requests the end of an allocation: the RM stops it, and then releases it with the same
	// termination; until then its resources are not freed. For a pending ask TIMEOUT is complete: the server
	// has dropped the ask, and the RM may submit it again.
	Allocations func(*si.AllocationResponse)
	// ContainerStates receives asks that quotas admit but that fit on no node. Nil for none.
	ContainerStates func([]*si.UpdateContainerSchedulingStateRequest)
	// PreemptionNotices receives the allocations that will be preempted at a deadline, because their queue has
	// `preemption.notice`, and those whose notice is withdrawn, so that they run on. Client.ReadyToStop answers
	// a notice, but is optional. Allocations receives the stop as usual. SessionReplayed ends all notices. Nil
	// for no notices; victims are nevertheless stopped only at the deadline.
	PreemptionNotices func(*licornev1.PreemptionNotices)
	// Events receives records with consecutive ids from firstID. A gap between two calls means that records
	// were dropped, because the server or this function was too slow. Nil for none.
	Events func(firstID uint64, records []*si.EventRecord)
	// Check returns the refused nodes of a check, each with the reason; all other nodes are accepted. If the
	// first node is accepted, the ask counts as placed there, and later checks must consider it. Check is
	// required if Config.Predicates is set, and otherwise not called. A check that would begin after its
	// deadline is skipped and counted in Stats.Unanswered.
	Check func(*licornev1.PredicateCheck) (refused map[string]string)
	// JudgeVictims returns the nodes of a preemption check on which the ask can run after the end of victims,
	// each with the position of the last victim to be stopped: at least the StartIndex of the node, which is -1
	// if the ask's resources fit now. All other nodes are refused. No victim has been stopped yet. Nil to let
	// only resources decide on victims. It needs Config.Predicates.
	JudgeVictims func(*licornev1.PreemptionCheck) (lastVictims map[string]int)
	// Dropped receives a check whose answer was dropped because a new session began while Check ran. It is
	// called right after Check. The replay of the new session may be older than a call of Assume by Check, and
	// then has the ask as pending. An RM that has started the ask should report it as an allocation with its
	// node. An answer from before the new session needs no such call, because the replay has its assumption.
	Dropped func(*licornev1.PredicateCheck)
	// StateDump returns the state of the RM as a JSON document of at most 1 MiB. Nil for none.
	StateDump func() (string, error)
	// Session receives changes of the session, for logs and metrics.
	Session func(SessionChange)
}

// SessionState is the kind of a change of the session.
type SessionState int

const (
	// SessionReplayed means that the server has registered the RM, has received all its items in a replay, and
	// schedules it now. This includes the first session.
	SessionReplayed SessionState = iota + 1
	// SessionResumed means that the session continues where the stream broke.
	SessionResumed
	// SessionDraining means that the server is about to stop. The client sends a goodbye, and connects again
	// after RetryAfter.
	SessionDraining
	// SessionLost means that the stream ended, for the reason Err. The client connects again.
	SessionLost
	// SessionRefused means that the server refused to register the RM with a configuration from
	// UpdateConfiguration that was not answered before. Err is the *ConfigError or *RegistrationError. The
	// client connects again, and registers with the last accepted configuration.
	SessionRefused
	// SessionEnded means that the client has ended permanently, for the reason Err, which is nil after Close and
	// after the end of Run's context. It is the last call of any handler.
	SessionEnded
)

// SessionChange is a change of the session.
type SessionChange struct {
	State SessionState
	// Address is the address of the server.
	Address string
	// Err is set with SessionLost, SessionRefused and SessionEnded.
	Err error
	// RetryAfter is set with SessionDraining.
	RetryAfter time.Duration
}

// String names the state in lower case.
func (s SessionState) String() string {
	switch s {
	case SessionReplayed:
		return "replayed"
	case SessionResumed:
		return "resumed"
	case SessionDraining:
		return "draining"
	case SessionLost:
		return "lost"
	case SessionRefused:
		return "refused"
	case SessionEnded:
		return "ended"
	default:
		return "unknown"
	}
}

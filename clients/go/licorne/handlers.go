package licorne

import (
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// Handlers are the functions that the client calls. Each may be nil.
//
// All but Check, JudgeVictims, Dropped and StateDump are called one at a time, in the order of the
// stream, from one goroutine. Check, JudgeVictims and Dropped run in a goroutine of their own beside
// them, one call at a time, in the order in which the server asked. With PredicateOptions.InOrder they
// run in line with the others.
// StateDump runs in a goroutine of its own beside them in any case, one call at a time.
//
// No lock of the client is held, so that a handler may call the Update methods. A handler must not
// wait for Close or for the end of Run: both wait for the handlers.
//
// A response is acknowledged when its handler has returned. What a handler gets it may keep, but it
// must not change it.
type Handlers struct {
	// Nodes gets the nodes that the server accepted or rejected.
	Nodes func(*si.NodeResponse)
	// Applications gets the applications that were accepted or rejected, and new states.
	Applications func(*si.ApplicationResponse)
	// Allocations gets new allocations, releases and rejected asks.
	//
	// A release with STOPPED_BY_RM has happened. One with TIMEOUT, PREEMPTED_BY_SCHEDULER or
	// PLACEHOLDER_REPLACED asks for the end of an allocation: the RM stops it, and then releases it with
	// that termination. Nothing is freed before. TIMEOUT of an ask that waits has happened: the server has
	// dropped the ask. Whoever still wants it asks again.
	Allocations func(*si.AllocationResponse)
	// ContainerStates gets asks that quota would admit and no node can take. Nil: not wanted.
	ContainerStates func([]*si.UpdateContainerSchedulingStateRequest)
	// PreemptionNotices gets the allocations that will be stopped for others at a deadline, as their queue
	// has `preemption.notice`, and those of an earlier notice that go on, because nobody needs their room any
	// more. Client.ReadyToStop answers; it need not be called. A stop is told to Allocations as always.
	// SessionReplayed ends all notices. Nil: not wanted, and victims are stopped at the deadline all the same.
	PreemptionNotices func(*licornev1.PreemptionNotices)
	// Events gets records whose ids rise by one from firstID. A gap means that some were dropped,
	// because the server or this function was too slow. Nil: not wanted.
	Events func(firstID uint64, records []*si.EventRecord)
	// Check returns the nodes of a check that the ask may not go to, each with the reason; the other
	// nodes are accepted. An ask whose first node is accepted counts as placed there, and later
	// checks must see it. Needed if Config.Predicates is set, not called otherwise. A check that
	// comes up after its deadline is skipped and counted in Stats.Unanswered.
	Check func(*licornev1.PredicateCheck) (refused map[string]string)
	// JudgeVictims returns the nodes of a preemption check on which the ask can run once victims are
	// gone, each with the position of the last victim that has to go: at least the StartIndex of the node,
	// which is -1 if the resources of the ask fit at once. The other nodes are refused. Nobody was told to
	// stop yet. Nil: not wanted, and victims are chosen by resources alone. It needs Config.Predicates.
	JudgeVictims func(*licornev1.PreemptionCheck) (lastVictims map[string]int)
	// Dropped gets a check whose answer was dropped, because a new session has begun while Check judged
	// it. It comes right after Check. The replay of the new session may have been taken before Check
	// called Assume, and says then that the ask is pending. Whoever has started the ask reports it as
	// an allocation with its node. An answer that was there before the new session needs no such call:
	// the replay has what was assumed by then.
	Dropped func(*licornev1.PredicateCheck)
	// StateDump returns the state of the RM as a JSON document of 1 MiB at the most. Nil: not wanted.
	StateDump func() (string, error)
	// Session is told what becomes of the session, for logs and metrics.
	Session func(SessionChange)
}

// SessionState says what became of a session.
type SessionState int

const (
	// SessionReplayed says that the server registered the RM anew, was told all that the client knows and
	// schedules the RM now. It comes also for the first session.
	SessionReplayed SessionState = iota + 1
	// SessionResumed says that the session goes on where the stream broke.
	SessionResumed
	// SessionDraining says that the server is about to stop. The client says goodbye and comes back after
	// RetryAfter.
	SessionDraining
	// SessionLost says that the stream ended, and Err why. The client connects again.
	SessionLost
	// SessionRefused says that the server refused to register the RM with a configuration that
	// UpdateConfiguration could not bring to it before. Err is the *ConfigError or *RegistrationError.
	// The client connects again and registers with the configuration that was accepted last.
	SessionRefused
	// SessionEnded says that the client has ended for good, and Err why. That is nil after Close and after the
	// end of Run's context. It is the last call of any handler.
	SessionEnded
)

// SessionChange is a change of the session.
type SessionChange struct {
	State SessionState
	// Address is the one that was connected to.
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

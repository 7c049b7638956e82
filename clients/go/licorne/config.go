package licorne

import (
	"crypto/tls"
	"log/slog"
	"time"

	"licorne.dev/clients/go/licornev1"
)

// Config says who the resource manager (RM) is and how it talks to the server.
type Config struct {
	// Target is host:port. Several addresses separated by commas are tried in turn, and so are those of the
	// other members that the server tells.
	Target string
	// RMID names the resource manager. The server keeps its books under that name.
	RMID string
	// Version is that of the resource manager. The server shows it.
	Version string
	// PolicyGroup is said at the registration; the server shows it.
	PolicyGroup string
	// Queues is the queue configuration, a YAML text. Empty means the server's default.
	Queues string
	// ExtraConfig is the rest of the configuration of the RM, by name.
	ExtraConfig map[string]string
	// BuildInfo is shown by the server, such as the version of the build.
	BuildInfo map[string]string
	// Instance rises with every start of the RM's process. The server refuses an instance below
	// the one it knows, and a higher one ends the session of the lower one. 0 means the time of
	// New in nanoseconds.
	Instance uint64
	// TLS is used for every connection. Nil means plain text.
	TLS *tls.Config
	// Token returns the bearer token by which the server knows the RM where it has no certificate. It
	// is called for every call, and must not block. Without TLS a token is sent to this machine only.
	// Nil means no token.
	Token func() (string, error)
	// Predicates makes the server ask Handlers.Check, and Handlers.JudgeVictims if that is set. Nil means
	// that every node passes.
	Predicates *PredicateOptions
	// Retry says when to connect again. The zero value means the numbers of the contract.
	Retry Retry
	// Limits bounds what the client keeps in memory. The zero value means the defaults.
	Limits Limits
	// JoinWindow is how long items wait for others, to leave with them as one message; 2 ms at the most.
	// They wait only while many are under way: one ask at a time is sent at once. 0 sends everything at
	// once, and nil means 2 ms.
	JoinWindow *time.Duration
	// Logger gets what the client has to say. Nil means slog.Default.
	Logger *slog.Logger
}

// PredicateOptions says how the RM answers predicate checks and preemption checks.
type PredicateOptions struct {
	// Deadline is the time for the answer to a check, in whole milliseconds from 10 ms to 60 s.
	// 0 means 2 s.
	Deadline time.Duration
	// FailOpen makes a check without an answer in time count as accepted. Otherwise its nodes
	// count as refused for that try. Of a preemption check, it accepts the fewest victims.
	FailOpen bool
	// ClassBy says which asks are judged alike, so that one check holds for all of them.
	ClassBy ClassBy
	// InOrder makes Handlers.Check and Handlers.JudgeVictims calls in line with those of the other handlers, in the order of
	// the stream: they see everything that the server said before the check. Slow handlers delay the
	// checks then, and slow checks the handlers.
	InOrder bool
}

// ClassBy says which asks the RM judges alike; see the constants.
type ClassBy = licornev1.ClassBy

const (
	// ByAsk is for asks with equal values of the tag licorne/predicate-class. An ask without it shares
	// with none.
	ByAsk = licornev1.ClassBy_BY_ASK
	// ByTag is the same, and asks without the tag share with each other.
	ByTag = licornev1.ClassBy_BY_TAG
	// ByAllTags is for asks whose tags are all equal, but for creationTime, kubernetes.io/meta/podName,
	// licorne/traceparent and licorne/tracestate.
	ByAllTags = licornev1.ClassBy_BY_ALL_TAGS
)

// Retry says when to connect again after a loss. The wait is random, between 0 and three quarters of a
// ceiling. The ceiling starts at Initial and doubles with every failure. With the defaults no wait is
// longer than 1.5 s, so that a server that is back is joined within 2 s. A wait that the server asks
// for is kept: it takes that long, and up to half as much more. A field of 0 means its default.
type Retry struct {
	// Initial is the first ceiling; 100 ms by default.
	Initial time.Duration
	// Maximum is the last ceiling; 2 s by default.
	Maximum time.Duration
	// Exhausted is the last ceiling while the server answers that it has no room, if that is more than
	// Maximum; 30 s by default.
	Exhausted time.Duration
	// Stable is how long a stream has to last for its welcome to take the ceiling back to Initial; 2 s
	// by default. Otherwise a server that welcomes and drops its clients would be overrun by them.
	Stable time.Duration
	// GiveUpAfter ends the client with a LostError after that time without a session. 0 means never.
	GiveUpAfter time.Duration
}

// Limits bounds what the client keeps in memory. A field of 0 means its default.
type Limits struct {
	// OutgoingBytes is how much may wait to be sent; 64 MiB by default. Beyond it the Update calls
	// wait.
	OutgoingBytes int
	// ResendBytes is how much of what was sent is kept until the server has dealt with it; 64 MiB
	// by default. Beyond it a lost stream costs a replay.
	ResendBytes int
	// IncomingItems is how many items of responses may wait for the handlers; 50,000 by default.
	// Beyond it the client stops reading, and in the end the server stops scheduling for this RM.
	IncomingItems int
}

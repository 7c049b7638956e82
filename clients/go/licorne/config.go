package licorne

import (
	"crypto/tls"
	"log/slog"
	"time"

	"licorne.dev/clients/go/licornev1"
)

// Config identifies the resource manager (RM), and configures its connection.
type Config struct {
	// Target is host:port, or several addresses separated by commas. They are tried in turn, and so are the
	// addresses of other members that the server names.
	Target string
	// RMID is the id of the resource manager at the server.
	RMID string
	// Version is the version of the resource manager, which the server only shows.
	Version string
	// PolicyGroup is a part of the registration, which the server only shows.
	PolicyGroup string
	// Queues is the queue configuration, a YAML text. Empty means the server's default.
	Queues string
	// ExtraConfig has further configuration of the RM, by name.
	ExtraConfig map[string]string
	// BuildInfo has facts about the build of the RM, which the server only shows.
	BuildInfo map[string]string
	// Instance must rise with every start of the RM's process. The server refuses an instance lower than
	// the current one, and a higher instance ends the session of a lower one. 0 means the time of New in
	// nanoseconds.
	Instance uint64
	// TLS is the configuration for every connection; nil for no TLS.
	TLS *tls.Config
	// Token returns a bearer token that identifies an RM without a certificate. It is called for every gRPC
	// call, and must not block. Without TLS a token is sent only to this machine. Nil means no token.
	Token func() (string, error)
	// Predicates enables checks by Handlers.Check, and by Handlers.JudgeVictims if that is set. Nil means that
	// every node is accepted.
	Predicates *PredicateOptions
	// Retry is the back-off between attempts to connect. The zero value means the defaults.
	Retry Retry
	// Limits bounds the memory of the client. The zero value means the defaults.
	Limits Limits
	// JoinWindow is the time for which items wait to be sent with others in one message; at most 2 ms. Items
	// wait only under load, so single asks are sent at once. With 0 no item waits, and nil means 2 ms.
	JoinWindow *time.Duration
	// Logger logs messages of the client. Nil means slog.Default.
	Logger *slog.Logger
}

// PredicateOptions configures how the RM answers predicate checks and preemption checks.
type PredicateOptions struct {
	// Deadline is the time for the answer to a check, in whole milliseconds from 10 ms to 60 s.
	// 0 means 2 s.
	Deadline time.Duration
	// FailOpen accepts all nodes of a check without an answer in time; for a preemption check, with the fewest
	// victims. Otherwise the nodes are refused, this time.
	FailOpen bool
	// ClassBy is the property by which asks share the results of checks.
	ClassBy ClassBy
	// InOrder runs Handlers.Check and Handlers.JudgeVictims in line with all other handlers, in the order of
	// the stream, so that they follow all earlier messages of the server. Slow handlers then delay checks, and
	// slow checks delay handlers.
	InOrder bool
}

// ClassBy is the property by which asks share the results of checks; see the constants.
type ClassBy = licornev1.ClassBy

const (
	// ByAsk compares the tag licorne/predicate-class. An ask without the tag shares results with no other ask.
	ByAsk = licornev1.ClassBy_BY_ASK
	// ByTag is like ByAsk, but asks without the tag share results with each other.
	ByTag = licornev1.ClassBy_BY_TAG
	// ByAllTags compares all tags except creationTime, kubernetes.io/meta/podName, licorne/traceparent and
	// licorne/tracestate.
	ByAllTags = licornev1.ClassBy_BY_ALL_TAGS
)

// Retry is the back-off between attempts to connect. The wait is random, between 0 and three quarters of a
// ceiling. The ceiling starts at Initial and doubles with every failure. With the defaults no wait is longer
// than 1.5 s, so that clients return within 2 s after the server does. If the server requests a wait, the
// client waits between 1 and 1.5 times as long, at random. A field of 0 means its default.
type Retry struct {
	// Initial is the ceiling of the first wait; 100 ms by default.
	Initial time.Duration
	// Maximum is the highest ceiling; 2 s by default.
	Maximum time.Duration
	// Exhausted is the highest ceiling while the server reports a lack of capacity; 30 s by default. It is
	// ignored below Maximum.
	Exhausted time.Duration
	// Stable is the time that a stream must last to reset the ceiling to Initial; 2 s by default. Without
	// this, clients would overrun a server that welcomes and then drops them.
	Stable time.Duration
	// GiveUpAfter is the time without a session after which the client ends with a *LostError; 0 for never.
	GiveUpAfter time.Duration
}

// Limits bounds the memory of the client. A field of 0 means its default.
type Limits struct {
	// OutgoingBytes is the size of items that may wait to be sent; 64 MiB by default. Above it the Update
	// methods wait.
	OutgoingBytes int
	// ResendBytes is the size of sent requests that are retained until the server has processed them; 64 MiB
	// by default. Above it the loss of a stream needs a replay.
	ResendBytes int
	// IncomingItems is the number of received items that may wait for the handlers; 50,000 by default. Above it
	// the client stops reading, and the server later stops scheduling for this RM.
	IncomingItems int
}

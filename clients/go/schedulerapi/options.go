package schedulerapi

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// ClassTag is the allocation tag by which the server knows which asks are judged alike.
const ClassTag = "licorne/predicate-class"

const (
	// defaultDeadline has room for the checks that the server sends at a time when many pods fit nowhere.
	defaultDeadline = 10 * time.Second
	defaultRecheck  = time.Second
)

// Options says where the server is and how the adapter behaves. Only Target is needed.
type Options struct {
	// Target is host:port of the server. Several addresses separated by commas are tried in turn, and so are
	// those of the other members that the server tells.
	Target string
	// TLS is used for every connection. Nil means plain text.
	TLS *tls.Config
	// PredicateDeadline is the time for the answers to the checks of either kind that the server sends
	// together, from 10 ms to 60 s. 0 means 10 s. The nodes of a check that is not answered by then
	// count as refused for a while, and the server asks less meanwhile. One check takes a twentieth of
	// it at the most; the nodes that the shim did not get to by then are refused and judged later. A
	// check names up to a thousand nodes.
	PredicateDeadline time.Duration
	// PredicateClass names the class of an ask: asks of equal class and resources are refused by the
	// same nodes. It saves checks where many pods are alike. An empty class shares with none, and
	// nil means that for every ask. A wrong class puts asks on nodes that the shim would refuse.
	PredicateClass func(*si.Allocation) string
	// Judge says why some of the nodes refuse an ask that is to go to one of them; the first node is judged in any case,
	// and the others by the given time, or they are refused for being late. Calls come one at a time. Nil asks the
	// shim's Predicates about each node.
	Judge func(key string, nodes []string, until time.Time) map[string]error
	// Cluster adds annotations of pods and labels of nodes to what the shim sends. Nil adds nothing.
	Cluster Cluster
	// RecheckInterval is how often refusals are judged again. 0 means a second.
	RecheckInterval time.Duration
	// Retry says when to connect again after a loss. The zero value means the numbers of the contract.
	Retry licorne.Retry
	// Limits bounds what is kept in memory. The zero value means the defaults.
	Limits licorne.Limits
	// JoinWindow is how long items wait for others while many are under way, as in licorne.Config. Nil
	// means 2 ms, and 0 that everything is sent at once.
	JoinWindow *time.Duration
	// Logger gets what the adapter has to say. Nil means slog.Default.
	Logger *slog.Logger
	// MetricsHook is called with what was measured, from any goroutine. It must return at once.
	MetricsHook func(Metric, float64)
	// Ended is called once if the session of a registered RM has ended for good, with the reason: a
	// newer instance has taken over, or the server does not let this one in any more. The shim's
	// process should end then. It is not called after Stop, and may call Stop itself.
	Ended func(error)
}

// Metric names what MetricsHook is told.
type Metric string

const (
	// MetricCheckSeconds is the time that judging a check took, in seconds.
	MetricCheckSeconds Metric = "check_seconds"
	// MetricPreemptionCheckSeconds is the time that judging a preemption check took, in seconds.
	MetricPreemptionCheckSeconds Metric = "preemption_check_seconds"
	// MetricNodesRefused is how many nodes of a check of either kind were refused.
	MetricNodesRefused Metric = "nodes_refused"
	// MetricTaken is 1 for each ask whose allocation was handed to the shim before the server said so.
	MetricTaken Metric = "taken"
	// MetricPlacedAgain is 1 for each taken ask of which the server had to be told where it is.
	MetricPlacedAgain Metric = "placed_again"
	// MetricHandedBack is 1 for each allocation that the shim refused although it had accepted the node
	// before.
	MetricHandedBack Metric = "handed_back"
	// MetricReopened is 1 each time that the server is made to ask about a node again, because the node is
	// accepted now or had too many refusals to judge them all again.
	MetricReopened Metric = "reopened"
	// MetricSessionLost is 1 for each loss of the session.
	MetricSessionLost Metric = "session_lost"
)

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.PredicateDeadline == 0 {
		o.PredicateDeadline = defaultDeadline
	}
	if o.RecheckInterval == 0 {
		o.RecheckInterval = defaultRecheck
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MetricsHook == nil {
		o.MetricsHook = func(Metric, float64) {}
	}
	if o.Ended == nil {
		o.Ended = func(error) {}
	}
	return o
}

// config is what the client is made with.
func (o Options) config(request *si.RegisterResourceManagerRequest) licorne.Config {
	return licorne.Config{
		Target:      o.Target,
		RMID:        request.GetRmID(),
		Version:     request.GetVersion(),
		PolicyGroup: request.GetPolicyGroup(),
		Queues:      request.GetConfig(),
		ExtraConfig: request.GetExtraConfig(),
		BuildInfo:   request.GetBuildInfo(),
		TLS:         o.TLS,
		Predicates:  &licorne.PredicateOptions{Deadline: o.PredicateDeadline, InOrder: true},
		Retry:       o.Retry,
		Limits:      o.Limits,
		JoinWindow:  o.JoinWindow,
		Logger:      o.Logger,
	}
}

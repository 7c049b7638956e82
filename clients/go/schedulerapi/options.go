package schedulerapi

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// ClassTag is the allocation tag with the predicate class of an ask.
const ClassTag = "licorne/predicate-class"

const (
	// defaultDeadline is enough for the checks that the server sends together when many pods fit nowhere.
	defaultDeadline = 10 * time.Second
	defaultRecheck  = time.Second
)

// Options configures the adapter. Only Target is required.
type Options struct {
	// Target is host:port of the server, or several addresses separated by commas. They are tried in turn, and
	// so are the addresses of other members that the server names.
	Target string
	// TLS is the configuration for every connection; nil for no TLS.
	TLS *tls.Config
	// PredicateDeadline is the time limit for all checks that the server sends together, of either kind: 10 ms
	// to 60 s, or 0 for 10 s. The nodes of a check without an answer in time are refused for a while, in which
	// the server sends fewer checks. One check, which may have a thousand nodes, takes at most a twentieth of
	// the deadline; nodes for which there is no time are refused, and checked again later.
	PredicateDeadline time.Duration
	// PredicateClass returns the class of an ask. Asks with equal classes and resources share refusals, which
	// saves checks for equal pods. With an empty class, and with nil for all asks, an ask shares refusals with
	// no other ask. If the class is wrong, asks are placed on nodes that the shim would refuse.
	PredicateClass func(*si.Allocation) string
	// Judge returns the reasons by refused node for an ask that is to be allocated. The first node must always
	// be checked, the others until the given time; after that they should be refused as late. Calls are
	// sequential. Nil calls the shim's Predicates for each node.
	Judge func(key string, nodes []string, until time.Time) map[string]error
	// Cluster adds annotations of pods and labels of nodes to the shim's messages. Nil adds nothing.
	Cluster Cluster
	// RecheckInterval is the time between two rechecks of refusals; 0 means a second.
	RecheckInterval time.Duration
	// Retry is the back-off between attempts to connect. The zero value means the defaults.
	Retry licorne.Retry
	// Limits bounds the memory of the client. The zero value means the defaults.
	Limits licorne.Limits
	// JoinWindow is the time for which items wait under load to be sent with others, as in licorne.Config. Nil
	// means 2 ms, and with 0 no item waits.
	JoinWindow *time.Duration
	// Logger logs messages of the adapter. Nil means slog.Default.
	Logger *slog.Logger
	// MetricsHook is called with every measured value, from any goroutine. It must return at once.
	MetricsHook func(Metric, float64)
	// Ended is called once if the session of a registered RM has ended permanently, with the reason, such as a
	// newer instance or a missing permission. The shim's process should then end. It is not called after Stop,
	// and may call Stop itself.
	Ended func(error)
}

// Metric is the name of a value for MetricsHook.
type Metric string

const (
	// MetricCheckSeconds is the duration of a predicate check, in seconds.
	MetricCheckSeconds Metric = "check_seconds"
	// MetricPreemptionCheckSeconds is the duration of a preemption check, in seconds.
	MetricPreemptionCheckSeconds Metric = "preemption_check_seconds"
	// MetricNodesRefused is the number of refused nodes of a check, of either kind.
	MetricNodesRefused Metric = "nodes_refused"
	// MetricTaken is 1 for each ask whose allocation the shim received before the server confirmed it.
	MetricTaken Metric = "taken"
	// MetricPlacedAgain is 1 for each taken ask whose node had to be sent to the server.
	MetricPlacedAgain Metric = "placed_again"
	// MetricHandedBack is 1 for each allocation that the shim refused after it had accepted the node.
	MetricHandedBack Metric = "handed_back"
	// MetricReopened is 1 each time that the server drops its refusals of a node, because the shim now accepts
	// the node, or because the node had too many refusals to check all again.
	MetricReopened Metric = "reopened"
	// MetricSessionLost is 1 for each loss of the session.
	MetricSessionLost Metric = "session_lost"
)

// withDefaults returns the options with defaults for zero values.
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

// config returns the configuration of the client.
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

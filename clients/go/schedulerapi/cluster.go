package schedulerapi

import (
	"context"
	"strings"
	"sync"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// Cluster returns facts that the messages of a shim lack; the server receives them as tags and attributes.
// Its methods may be called from any goroutine. Their results are not changed.
type Cluster interface {
	// PodAnnotations returns the annotations of the pod with an allocation key; nil if there is no such pod.
	// The shim may hold locks of the pod and its application during the call.
	PodAnnotations(allocationKey string) map[string]string
	// ApplicationAnnotations returns the annotations of the first pod of an application. The shim holds no lock
	// during the call, which may wait for the shim.
	ApplicationAnnotations(applicationID string) map[string]string
	// NodeLabels returns the labels of a new node; nil if it is unknown.
	NodeLabels(nodeID string) map[string]string
}

// annotations has the tags by annotation of pods.
var annotations = map[string]string{
	"licorne.dev/runtime":   licorne.TagRuntime,
	"licorne.dev/start-by":  licorne.TagStartBy,
	"licorne.dev/topology":  licorne.TagTopology,
	"licorne.dev/slice":     licorne.TagSlice,
	"licorne.dev/gang-min":  licorne.TagGangMin,
	"licorne.dev/gang-max":  licorne.TagGangMax,
	"licorne.dev/gang-step": licorne.TagGangStep,
}

// ofApplications has the tags that only applications have.
var ofApplications = map[string]bool{
	licorne.TagTopology: true, licorne.TagSlice: true,
	licorne.TagGangMin: true, licorne.TagGangMax: true, licorne.TagGangStep: true,
}

// ownAttributes is the prefix of attributes with a special meaning, which labels must not override.
const ownAttributes = "si/"

// askTags returns the tags of an ask from the annotations of its pod.
func (r *rm) askTags(allocation *si.Allocation) map[string]string {
	tags := map[string]string{}
	for annotation, value := range r.options.Cluster.PodAnnotations(allocation.GetAllocationKey()) {
		if tag := annotations[annotation]; tag != "" && !ofApplications[tag] {
			tags[tag] = value
		}
	}
	return tags
}

// described returns a copy of the request with the tags of its new applications.
func (r *rm) described(request *si.ApplicationRequest) *si.ApplicationRequest {
	with := &si.ApplicationRequest{RmID: request.GetRmID(), Remove: request.GetRemove()}
	for _, application := range request.GetNew() {
		tags := map[string]string{}
		for annotation, value := range r.options.Cluster.ApplicationAnnotations(application.GetApplicationID()) {
			if tag := annotations[annotation]; tag != "" {
				tags[tag] = value
			}
		}
		if len(tags) > 0 {
			application = &si.AddApplicationRequest{
				ApplicationID:                application.GetApplicationID(),
				QueueName:                    application.GetQueueName(),
				PartitionName:                application.GetPartitionName(),
				Ugi:                          application.GetUgi(),
				Tags:                         joined(tags, application.GetTags()),
				ExecutionTimeoutMilliSeconds: application.GetExecutionTimeoutMilliSeconds(),
				PlaceholderAsk:               application.GetPlaceholderAsk(),
				GangSchedulingStyle:          application.GetGangSchedulingStyle(),
			}
		}
		with.New = append(with.New, application)
	}
	return with
}

// labelled returns a copy of the request with the labels of its new nodes as attributes.
func (r *rm) labelled(request *si.NodeRequest) *si.NodeRequest {
	with := &si.NodeRequest{RmID: request.GetRmID()}
	for _, node := range request.GetNodes() {
		action := node.GetAction()
		if action == si.NodeInfo_CREATE || action == si.NodeInfo_CREATE_DRAIN {
			attributes := map[string]string{}
			for label, value := range r.options.Cluster.NodeLabels(node.GetNodeID()) {
				if !strings.HasPrefix(label, ownAttributes) {
					attributes[label] = value
				}
			}
			node = &si.NodeInfo{
				NodeID:              node.GetNodeID(),
				Action:              action,
				Attributes:          joined(attributes, node.GetAttributes()),
				SchedulableResource: node.GetSchedulableResource(),
			}
		}
		with.Nodes = append(with.Nodes, node)
	}
	return with
}

// joined adds the shim's own tags or attributes to more, which they override.
func joined(more, own map[string]string) map[string]string {
	for name, value := range own {
		more[name] = value
	}
	return more
}

// later runs functions in order, one at a time, and not in the goroutine of the caller.
type later struct {
	mu      sync.Mutex
	waiting []func()
	more    chan struct{}
}

func newLater() *later { return &later{more: make(chan struct{}, 1)} }

func (l *later) put(work func()) {
	l.mu.Lock()
	l.waiting = append(l.waiting, work)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *later) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.more:
		}
		l.mu.Lock()
		work := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		for _, each := range work {
			each()
		}
	}
}

// describeLater sends a request after adding tags to its applications, in another goroutine: the shim holds a
// lock of the application, which must be free for this.
func (r *rm) describeLater(request *si.ApplicationRequest) {
	r.later.put(func() {
		if err := r.sendApplications(r.described(request)); err != nil {
			r.log.Warn("applications were not sent", "error", err)
		}
	})
}

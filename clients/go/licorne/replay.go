package licorne

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/common"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// replay is a snapshot of the cache. Later changes are sent after it.
type replay struct {
	nodes        []knownNode
	applications []replayedApp
	asks         []replayedAsk
}

type replayedApp struct {
	number  uint64
	request *si.AddApplicationRequest
	forced  bool
}

type replayedAsk struct {
	number  uint64
	item    *si.Allocation
	size    *si.Resource
	node    string
	askedAt int64
	// checkpoint is the time up to which its work is saved, in unix seconds; 0 if unknown.
	checkpoint int64
}

// snapshot returns a snapshot of the cache. Applications with allocations are forced, because the server must
// not reject running work.
func (c *cache) snapshot() *replay {
	r := &replay{
		nodes:        make([]knownNode, 0, len(c.nodes)),
		applications: make([]replayedApp, 0, len(c.applications)),
		asks:         make([]replayedAsk, 0, len(c.asks)),
	}
	for _, known := range c.nodes {
		r.nodes = append(r.nodes, *known)
	}
	for _, known := range c.applications {
		r.applications = append(r.applications, replayedApp{known.number, known.request, c.runs(known)})
	}
	for _, known := range c.asks {
		r.asks = append(r.asks, known.replayed(c))
	}
	return r
}

// replayed returns the ask or allocation for a replay.
func (a *knownAsk) replayed(c *cache) replayedAsk {
	return replayedAsk{a.number, a.item, a.size, a.place(c), a.askedAt, a.checkpoint}
}

// each passes the requests of the replay to send: a begin; nodes, applications, allocations and asks, each in
// the order of their additions; an end with their counts. No request has more than maxItems items. It stops
// at the first error of send, and returns it.
func (r *replay) each(maxItems int, send func(*batch) error) error {
	slices.SortFunc(r.nodes, func(a, b knownNode) int { return cmp.Compare(a.number, b.number) })
	slices.SortFunc(r.applications, func(a, b replayedApp) int { return cmp.Compare(a.number, b.number) })
	slices.SortFunc(r.asks, func(a, b replayedAsk) int {
		return cmp.Or(cmp.Compare(a.pending(), b.pending()), cmp.Compare(a.number, b.number))
	})
	begin := &licornev1.UpdateRequest_ReplayBegin{ReplayBegin: &licornev1.ReplayBegin{}}
	if err := send(&batch{request: &licornev1.UpdateRequest{Message: begin}}); err != nil {
		return err
	}
	if err := r.items(&packer{maxItems: maxItems}, send); err != nil {
		return err
	}
	end := &licornev1.UpdateRequest_ReplayEnd{ReplayEnd: &licornev1.ReplayEnd{
		Nodes:        uint32(len(r.nodes)),
		Applications: uint32(len(r.applications)),
		Allocations:  uint32(len(r.asks)),
	}}
	return send(&batch{request: &licornev1.UpdateRequest{Message: end}})
}

// items passes all requests except the begin and the end to send. The last request may accept more items.
func (r *replay) items(p *packer, send func(*batch) error) error {
	full := func(left int) error {
		for len(p.batches) > left {
			if err := send(p.take()); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range r.nodes {
		info := r.nodes[i].info()
		p.node(info, proto.Size(info))
		if err := full(1); err != nil {
			return err
		}
	}
	for i := range r.applications {
		request := r.applications[i].wire()
		p.newApplication(request, proto.Size(request))
		if err := full(1); err != nil {
			return err
		}
	}
	for i := range r.asks {
		item := r.asks[i].wire()
		p.allocation(item, proto.Size(item))
		if err := full(1); err != nil {
			return err
		}
	}
	return full(0)
}

// wire returns the message that submits the application in a replay. It shares its parts with the caller's.
func (a *replayedApp) wire() *si.AddApplicationRequest {
	if !a.forced {
		return a.request
	}
	return &si.AddApplicationRequest{
		ApplicationID:                a.request.GetApplicationID(),
		QueueName:                    a.request.GetQueueName(),
		PartitionName:                a.request.GetPartitionName(),
		Ugi:                          a.request.GetUgi(),
		Tags:                         with(a.request.GetTags(), common.AppTagCreateForce, "true"),
		ExecutionTimeoutMilliSeconds: a.request.GetExecutionTimeoutMilliSeconds(),
		PlaceholderAsk:               a.request.GetPlaceholderAsk(),
		GangSchedulingStyle:          a.request.GetGangSchedulingStyle(),
	}
}

// pending returns 1 for a pending ask and 0 for an allocation, to sort allocations first.
func (a *replayedAsk) pending() int {
	if a.node == "" {
		return 1
	}
	return 0
}

// wire returns the message for the ask in a replay. It shares its parts with the caller's message.
func (a *replayedAsk) wire() *si.Allocation {
	tags := a.item.GetAllocationTags()
	if _, said := tags[common.CreationTime]; !said {
		tags = with(tags, common.CreationTime, strconv.FormatInt(a.askedAt, 10))
	}
	if a.checkpoint != 0 {
		tags = with(tags, TagCheckpoint, strconv.FormatInt(a.checkpoint, 10))
	}
	return &si.Allocation{
		AllocationKey:    a.item.GetAllocationKey(),
		AllocationTags:   tags,
		ResourcePerAlloc: a.size,
		Priority:         a.item.GetPriority(),
		NodeID:           a.node,
		ApplicationID:    a.item.GetApplicationID(),
		PartitionName:    a.item.GetPartitionName(),
		TaskGroupName:    a.item.GetTaskGroupName(),
		Placeholder:      a.item.GetPlaceholder(),
		Originator:       a.item.GetOriginator(),
		PreemptionPolicy: a.item.GetPreemptionPolicy(),
	}
}

// with returns a copy of the tags with one more tag.
func with(tags map[string]string, name, value string) map[string]string {
	more := make(map[string]string, len(tags)+1)
	maps.Copy(more, tags)
	more[name] = value
	return more
}

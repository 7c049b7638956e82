package schedulerapi

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// goodbyeTime is the time limit for the end of a session.
const goodbyeTime = 5 * time.Second

// session has the methods of licorne.Client that the adapter uses.
type session interface {
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
	CheckNodes(*si.NodeRequest) error
	CheckApplications(*si.ApplicationRequest) error
	CheckAllocations(*si.AllocationRequest) error
	UpdateNodes(*si.NodeRequest) error
	UpdateApplications(*si.ApplicationRequest) error
	UpdateAllocations(*si.AllocationRequest) error
	UpdateConfiguration(ctx context.Context, queues string, extra map[string]string) error
	Assume(allocationKey, nodeID string) bool
	Close(ctx context.Context, unregister bool) error
}

// rm is one registration of a shim, from RegisterResourceManager to the next one or Stop.
//
// Its locks are acquired in the order deliver, order, books. Only deliver may be held while the shim is
// called, because the shim calls the scheduler with its own locks.
type rm struct {
	options  Options
	log      *slog.Logger
	hook     func(Metric, float64)
	callback api.ResourceManagerCallback
	session  session

	// deliver is held while the shim is called, so that its callbacks and checks are sequential.
	deliver sync.Mutex
	// order is held exclusively by the keeper, from reading the shim's state until the remedy is queued; and
	// shared by the shim's calls, while they are recorded and queued.
	order sync.RWMutex

	books         *books
	refusals      *refusals
	keeper        *keeper
	configuration *configuration
	later         *later

	running context.Context
	end     context.CancelFunc
	done    sync.WaitGroup

	life       sync.Mutex
	ended      bool
	registered chan error // gets the outcome of the registration
}

// newRM creates a registration; the error names an invalid field.
func newRM(options Options, request *si.RegisterResourceManagerRequest, callback api.ResourceManagerCallback) (*rm, error) {
	r := newDetached(options, request.GetRmID(), callback)
	client, err := licorne.New(options.config(request), r.handlers())
	if err != nil {
		return nil, err
	}
	r.attach(client)
	return r, nil
}

// newDetached creates a registration without a session.
func newDetached(options Options, rmID string, callback api.ResourceManagerCallback) *rm {
	r := &rm{
		options:  options,
		log:      options.Logger.With("rmID", rmID),
		hook:     options.MetricsHook,
		callback: callback,
		books:    newBooks(),
		refusals: newRefusals(options.RecheckInterval),
		later:    newLater(),

		registered: make(chan error, 1),
	}
	r.running, r.end = context.WithCancel(context.Background())
	r.keeper = newKeeper(r)
	return r
}

func (r *rm) attach(session session) {
	r.session = session
	r.configuration = newConfiguration(r.running, session, r.log)
}

// handlers returns the handlers for the client.
func (r *rm) handlers() licorne.Handlers {
	handlers := licorne.Handlers{
		Nodes: func(response *si.NodeResponse) {
			r.tell("UpdateNode", func() error { return r.callback.UpdateNode(response) })
		},
		Applications: func(response *si.ApplicationResponse) {
			r.tell("UpdateApplication", func() error { return r.callback.UpdateApplication(response) })
		},
		Allocations: r.allocations,
		ContainerStates: func(states []*si.UpdateContainerSchedulingStateRequest) {
			r.tell("UpdateContainerSchedulingState", func() error {
				for _, state := range states {
					r.callback.UpdateContainerSchedulingState(state)
				}
				return nil
			})
		},
		Events: func(_ uint64, records []*si.EventRecord) {
			r.tell("SendEvent", func() error {
				r.callback.SendEvent(records)
				return nil
			})
		},
		Check:        r.check,
		JudgeVictims: r.judgeVictims,
		Dropped:      r.dropped,
		Session:      r.changed,
	}
	if dumper, ok := r.callback.(api.StateDumpPlugin); ok {
		handlers.StateDump = dumper.GetStateDump
	}
	return handlers
}

// tell calls the shim back, with deliver held.
func (r *rm) tell(name string, callback func() error) {
	r.deliver.Lock()
	defer r.deliver.Unlock()
	r.call(name, callback)
}

// call calls the shim back; the caller holds deliver.
func (r *rm) call(name string, callback func() error) {
	if err := callback(); err != nil {
		r.log.Warn("the shim reports an error", "callback", name, "error", err)
	}
}

// start runs the session, unless it was stopped before.
func (r *rm) start() {
	r.background(func() {
		err := r.session.Run(r.running)
		r.end()
		if err != nil && <-r.registered == nil {
			r.log.Error("the session has ended for good", "error", err)
			// In a goroutine for which stop does not wait, because it may call Stop.
			go r.tellEnd(err)
		}
	})
	r.background(func() { r.keeper.run(r.running) })
	r.background(func() { r.later.run(r.running) })
}

func (r *rm) tellEnd(err error) {
	r.life.Lock()
	stopped := r.ended
	r.life.Unlock()
	if !stopped {
		r.options.Ended(err)
	}
}

// background runs work in a separate goroutine, for which stop waits.
func (r *rm) background(work func()) {
	r.life.Lock()
	defer r.life.Unlock()
	if r.ended {
		return
	}
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		work()
	}()
}

// ready waits for the first session. It returns the server's refusal.
func (r *rm) ready() error {
	err := r.session.Ready(context.Background())
	r.life.Lock()
	if r.ended {
		err = ErrStopped
	}
	r.life.Unlock()
	r.registered <- err
	return err
}

// stop sends a goodbye, and ends the registration, even if it was not started. No callback runs after it,
// except a call of Options.Ended that has already begun.
func (r *rm) stop() {
	r.life.Lock()
	goodbye := !r.ended
	r.ended = true
	r.life.Unlock()
	if goodbye {
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
		defer cancel()
		if err := r.session.Close(ctx, false); err != nil && r.running.Err() == nil {
			r.log.Warn("the session ended without a goodbye", "error", err)
		}
	}
	r.end()
	r.done.Wait()
}

// changed handles a change of the session.
func (r *rm) changed(change licorne.SessionChange) {
	switch change.State {
	case licorne.SessionLost:
		r.hook(MetricSessionLost, 1)
		r.log.Warn("the session was lost", "address", change.Address, "error", change.Err)
	case licorne.SessionReplayed, licorne.SessionResumed:
		r.log.Info("the session goes on", "state", change.State.String(), "address", change.Address)
		r.background(r.configuration.repeat)
	case licorne.SessionDraining, licorne.SessionRefused, licorne.SessionEnded:
		// The client has logged a refused configuration; the former queues remain in force.
	}
}

// updateAllocation records and queues the shim's asks, allocations and releases. A refused request is not
// recorded.
func (r *rm) updateAllocation(request *si.AllocationRequest) error {
	if r.options.PredicateClass != nil || r.options.Cluster != nil {
		request = r.tagged(request)
	}
	if err := r.session.CheckAllocations(request); err != nil {
		return err
	}
	r.order.RLock()
	defer r.order.RUnlock()
	for _, allocation := range request.GetAllocations() {
		r.books.note(allocation)
	}
	for _, release := range request.GetReleases().GetAllocationsToRelease() {
		r.books.release(release)
	}
	return r.session.UpdateAllocations(request)
}

// tagged returns a copy of the request with tags for the classes of its asks and the annotations of their
// pods.
func (r *rm) tagged(request *si.AllocationRequest) *si.AllocationRequest {
	with := &si.AllocationRequest{RmID: request.GetRmID(), Releases: request.GetReleases()}
	for _, allocation := range request.GetAllocations() {
		if tags := r.moreTags(allocation); len(tags) > 0 {
			allocation = onNode(allocation, allocation.GetNodeID())
			allocation.AllocationTags = tags
		}
		with.Allocations = append(with.Allocations, allocation)
	}
	return with
}

// moreTags returns all tags of an allocation; nil if there are none in addition to its own.
func (r *rm) moreTags(allocation *si.Allocation) map[string]string {
	if isForeign(allocation) {
		return nil
	}
	tags := map[string]string{}
	if r.options.Cluster != nil {
		tags = r.askTags(allocation)
	}
	class := ""
	if r.options.PredicateClass != nil {
		class = r.options.PredicateClass(allocation)
	}
	if class == "" && len(tags) == 0 {
		return nil
	}
	tags = joined(tags, allocation.GetAllocationTags())
	if class != "" {
		tags[ClassTag] = class
	}
	return tags
}

func (r *rm) updateApplication(request *si.ApplicationRequest) error {
	if err := r.session.CheckApplications(request); err != nil {
		return err
	}
	if r.options.Cluster == nil {
		return r.sendApplications(request)
	}
	r.describeLater(request)
	return nil
}

func (r *rm) sendApplications(request *si.ApplicationRequest) error {
	r.order.RLock()
	defer r.order.RUnlock()
	for _, removed := range request.GetRemove() {
		r.books.removeApplication(removed.GetApplicationID())
	}
	return r.session.UpdateApplications(request)
}

// updateNode records and queues changes of nodes. An ask that was taken on a removed node, and may be pending
// at the server, ends with the node like all allocations there.
func (r *rm) updateNode(request *si.NodeRequest) error {
	if r.options.Cluster != nil {
		request = r.labelled(request)
	}
	if err := r.session.CheckNodes(request); err != nil {
		return err
	}
	r.order.RLock()
	defer r.order.RUnlock()
	var gone []*si.AllocationRelease
	for _, node := range request.GetNodes() {
		for _, allocation := range r.books.updateNode(node) {
			gone = append(gone, &si.AllocationRelease{
				PartitionName:   allocation.GetPartitionName(),
				ApplicationID:   allocation.GetApplicationID(),
				AllocationKey:   allocation.GetAllocationKey(),
				TerminationType: si.TerminationType_STOPPED_BY_RM,
				Message:         "Node " + node.GetNodeID() + " Removed",
			})
		}
		if node.GetAction() == si.NodeInfo_DECOMISSION {
			r.refusals.removed(node.GetNodeID())
		}
	}
	if err := r.session.UpdateNodes(request); err != nil || len(gone) == 0 {
		return err
	}
	r.tellLater(&si.AllocationResponse{Released: gone})
	return r.session.UpdateAllocations(&si.AllocationRequest{
		RmID:     request.GetRmID(),
		Releases: &si.AllocationReleasesRequest{AllocationsToRelease: gone},
	})
}

// tellLater passes a response to the shim after the shim has returned from its own call.
func (r *rm) tellLater(response *si.AllocationResponse) {
	r.background(func() {
		r.tell("UpdateAllocation", func() error { return r.callback.UpdateAllocation(response) })
	})
}

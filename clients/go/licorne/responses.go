package licorne

import (
	"errors"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// callbacks converts responses to calls of the handlers.
type callbacks struct {
	state    *state
	handlers Handlers
	judge    *judge
	// inOrder is true if checks run in line with the other handlers.
	inOrder bool
	// dumps has the requested state dumps, and dumping is true while a goroutine makes them. The state's lock
	// guards both.
	dumps   []wantedDump
	dumping bool
	// start runs a function in a goroutine, for which Run waits.
	start func(func())
}

// deliver applies a response to the cache, and queues the calls of handlers. The state's lock is held.
func (c *callbacks) deliver(response *licornev1.UpdateResponse) error {
	d := delivery{at: stampOf(response), number: response.GetNumber()}
	tell := func(items int, call func()) {
		d.items += items
		if call != nil {
			d.calls = append(d.calls, call)
		}
	}
	switch message := response.GetMessage().(type) {
	case *licornev1.UpdateResponse_Nodes:
		tell(c.nodes(message.Nodes))
	case *licornev1.UpdateResponse_Applications:
		tell(c.applications(message.Applications))
	case *licornev1.UpdateResponse_Allocations:
		tell(c.allocations(message.Allocations))
	case *licornev1.UpdateResponse_ReplayResult:
		if err := c.replayed(message.ReplayResult, tell); err != nil {
			return err
		}
	case *licornev1.UpdateResponse_PredicateChecks:
		tell(c.checks(predicateDues(d.at, message.PredicateChecks)))
	case *licornev1.UpdateResponse_PreemptionChecks:
		if c.handlers.JudgeVictims != nil {
			tell(c.checks(preemptionDues(d.at, message.PreemptionChecks)))
		}
	case *licornev1.UpdateResponse_ContainerStates:
		if handler, states := c.handlers.ContainerStates, message.ContainerStates.GetStates(); handler != nil {
			tell(len(states), func() { handler(states) })
		}
	case *licornev1.UpdateResponse_PreemptionNotices:
		if handler, notices := c.handlers.PreemptionNotices, message.PreemptionNotices; handler != nil {
			tell(len(notices.GetNotices())+len(notices.GetWithdrawn()), func() { handler(notices) })
		}
	case *licornev1.UpdateResponse_Events:
		if handler, events := c.handlers.Events, message.Events; handler != nil {
			tell(len(events.GetRecords()), func() { handler(events.GetFirstId(), events.GetRecords()) })
		}
	case *licornev1.UpdateResponse_StateDumpWanted:
		c.wantDump(wantedDump{d.at, message.StateDumpWanted.GetId()})
	}
	if d.number != 0 || len(d.calls) > 0 {
		c.state.inbox.put(d)
	}
	return nil
}

// session queues a call of Handlers.Session. The state's lock is held.
func (c *callbacks) session(change SessionChange) {
	if handler := c.handlers.Session; handler != nil {
		c.state.inbox.put(delivery{calls: []func(){func() { handler(change) }}})
	}
}

// dispatch calls the handlers until the end.
func (c *callbacks) dispatch() {
	for {
		c.state.mu.Lock()
		taken := c.state.inbox.take()
		c.state.mu.Unlock()
		if taken == nil {
			return
		}
		for _, d := range taken {
			for _, call := range d.calls {
				call()
			}
			c.state.consumed(d)
		}
	}
}

func (c *callbacks) nodes(response *si.NodeResponse) (int, func()) {
	cache := c.state.cache
	accepted := keep(response.GetAccepted(), func(item *si.AcceptedNode) bool {
		return cache.nodeAccepted(item.GetNodeID())
	})
	for _, item := range response.GetRejected() {
		cache.nodeRejected(item.GetNodeID())
	}
	items := len(accepted) + len(response.GetRejected())
	if items == 0 || c.handlers.Nodes == nil {
		return items, nil
	}
	if len(accepted) != len(response.GetAccepted()) {
		response = &si.NodeResponse{Accepted: accepted, Rejected: response.GetRejected()}
	}
	return items, func() { c.handlers.Nodes(response) }
}

func (c *callbacks) applications(response *si.ApplicationResponse) (int, func()) {
	cache := c.state.cache
	doubtful := cache.doubtful(response)
	// Acceptances are first: a message never accepts and rejects the same application.
	accepted := keep(response.GetAccepted(), func(item *si.AcceptedApplication) bool {
		return cache.appAccepted(item.GetApplicationID())
	})
	for _, item := range response.GetRejected() {
		if !doubtful[item.GetApplicationID()] {
			cache.appRejected(item.GetApplicationID())
		}
	}
	updated := keep(response.GetUpdated(), cache.appState)
	items := len(accepted) + len(response.GetRejected()) + len(updated)
	if items == 0 || c.handlers.Applications == nil {
		return items, nil
	}
	if len(accepted) != len(response.GetAccepted()) || len(updated) != len(response.GetUpdated()) {
		response = &si.ApplicationResponse{Accepted: accepted, Rejected: response.GetRejected(), Updated: updated}
	}
	return items, func() { c.handlers.Applications(response) }
}

func (c *callbacks) allocations(response *si.AllocationResponse) (int, func()) {
	cache := c.state.cache
	fresh := keep(response.GetNew(), cache.allocated)
	for _, item := range response.GetReleased() {
		cache.released(item)
	}
	for _, item := range response.GetRejectedAllocations() {
		cache.rejected(item.GetAllocationKey())
	}
	items := len(fresh) + len(response.GetReleased()) + len(response.GetRejectedAllocations())
	if items == 0 || c.handlers.Allocations == nil {
		return items, nil
	}
	if len(fresh) != len(response.GetNew()) {
		response = &si.AllocationResponse{
			New: fresh, Released: response.GetReleased(), RejectedAllocations: response.GetRejectedAllocations(),
		}
	}
	return items, func() { c.handlers.Allocations(response) }
}

// keep returns the items for which wanted returns true; the list itself if those are all items.
func keep[T any](items []T, wanted func(T) bool) []T {
	for i, item := range items {
		if wanted(item) {
			continue
		}
		kept := append([]T(nil), items[:i]...)
		for _, other := range items[i+1:] {
			if wanted(other) {
				kept = append(kept, other)
			}
		}
		return kept
	}
	return items
}

// begin reports all unconfirmed releases as complete, because the server has dropped its state. The state's
// lock is held.
func (c *callbacks) begin() {
	released := c.state.cache.beginReplay()
	handler := c.handlers.Allocations
	if len(released) == 0 || handler == nil {
		return
	}
	call := func() { handler(&si.AllocationResponse{Released: released}) }
	c.state.inbox.put(delivery{items: len(released), calls: []func(){call}})
}

// replayed ends a replay, or returns an error if items were lost.
func (c *callbacks) replayed(result *licornev1.ReplayResult, tell func(int, func())) error {
	s := c.state
	if !result.GetComplete() {
		// The server has stored the received items, and would reject them in a second replay. It drops them when
		// the next hello registers the RM again.
		s.session.forget()
		return errors.New("a replay is wanted again: " + result.GetReason())
	}
	s.stats.Replayed++
	s.live()
	updated := s.cache.endReplay()
	if handler := c.handlers.Applications; handler != nil && len(updated) > 0 {
		tell(len(updated), func() { handler(&si.ApplicationResponse{Updated: updated}) })
	}
	if handler, address := c.handlers.Session, s.address; handler != nil {
		tell(0, func() { handler(SessionChange{State: SessionReplayed, Address: address}) })
	}
	return nil
}

// checks queues checks of either kind, or returns the call that answers them in line.
func (c *callbacks) checks(list []due) (int, func()) {
	if c.judge == nil {
		return 0, nil
	}
	if c.inOrder {
		return len(list), func() { c.judge.judge(list) }
	}
	c.judge.put(list)
	return 0, nil
}

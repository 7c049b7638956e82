package licorne

import "sync"

// delivery has the calls of handlers for one response.
type delivery struct {
	at stamp
	// number is the number of the response; 0 for a delivery that the client itself creates.
	number uint64
	// items is the number of items that count towards the limit.
	items int
	calls []func()
}

// inbox has the deliveries that wait for handlers.
type inbox struct {
	// changed is signalled when a delivery is added or done, and at the end. Its lock is the state's lock.
	changed *sync.Cond
	waiting []delivery
	items   int
	limit   int
	closed  bool
	// callers is the number of Update calls that wait until the outgoing queue shrinks.
	callers int
}

// put adds a delivery. The state's lock is held.
func (i *inbox) put(d delivery) {
	d.items++
	i.waiting = append(i.waiting, d)
	i.items += d.items
	i.changed.Broadcast()
}

// full returns whether the inbox has reached its limit. The state's lock is held.
//
// It is never full while an Update call waits for the outgoing queue. That call may be from a handler, which
// would never return while the server waits for the client to read.
func (i *inbox) full() bool {
	return i.items >= i.limit && i.callers == 0 && !i.closed
}

// take waits for deliveries and returns them all, or nil after the end. The state's lock is held.
func (i *inbox) take() []delivery {
	for len(i.waiting) == 0 && !i.closed {
		i.changed.Wait()
	}
	taken := i.waiting
	i.waiting = nil
	return taken
}

// done records that the handlers have processed a delivery. The state's lock is held.
func (i *inbox) done(d delivery) {
	i.items -= d.items
	if i.items < i.limit && i.items+d.items >= i.limit {
		i.changed.Broadcast()
	}
}

// close refuses further deliveries; waiting ones are still passed to the handlers. The state's lock is held.
func (i *inbox) close() {
	i.closed = true
	i.changed.Broadcast()
}

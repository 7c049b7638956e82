package licorne

import "sync"

// delivery is what the handlers are told for one response.
type delivery struct {
	at stamp
	// number is that of the response; 0 for what the client itself has to say.
	number uint64
	// items is how much room it takes.
	items int
	calls []func()
}

// inbox has the deliveries that wait for the handlers.
type inbox struct {
	// changed is signalled when something comes, is taken or ends. Its lock is that of the state.
	changed *sync.Cond
	waiting []delivery
	items   int
	limit   int
	closed  bool
	// callers counts the calls of the caller that wait for room on the way out.
	callers int
}

// put adds a delivery. The state's lock is held.
func (i *inbox) put(d delivery) {
	d.items++
	i.waiting = append(i.waiting, d)
	i.items += d.items
	i.changed.Broadcast()
}

// full says whether there is no room for more. The state's lock is held.
//
// There is always room while a call waits for room on the way out. That call may be a handler's,
// which could not come to an end if the server waits for us to read.
func (i *inbox) full() bool {
	return i.items >= i.limit && i.callers == 0 && !i.closed
}

// take returns all that waits, or nil after the end. The state's lock is held.
func (i *inbox) take() []delivery {
	for len(i.waiting) == 0 && !i.closed {
		i.changed.Wait()
	}
	taken := i.waiting
	i.waiting = nil
	return taken
}

// done notes that a delivery was dealt with. The state's lock is held.
func (i *inbox) done(d delivery) {
	i.items -= d.items
	if i.items < i.limit && i.items+d.items >= i.limit {
		i.changed.Broadcast()
	}
}

// close takes no more deliveries. What waits is still told. The state's lock is held.
func (i *inbox) close() {
	i.closed = true
	i.changed.Broadcast()
}

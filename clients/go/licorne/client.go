package licorne

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// Client is one resource manager's connection to the server.
//
// It stores all items, and sends them again after a restart of the server. All methods may be called from
// any goroutine.
//
// The items of a request belong to the client after the call: the caller may read them, but must not change
// them. The lists of items, and the request itself, are not retained.
type Client struct {
	config    Config
	state     *state
	callbacks *callbacks
	// running are the goroutines of Run.
	running sync.WaitGroup
	// finished is closed at the end of Run.
	finished chan struct{}
	// started is true if Run was called. The state's lock guards it.
	started bool
}

// New creates a client, which connects when Run is called. For an invalid configuration it returns an
// *InvalidError.
func New(config Config, handlers Handlers) (*Client, error) {
	config.BuildInfo, config.ExtraConfig = maps.Clone(config.BuildInfo), maps.Clone(config.ExtraConfig)
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	if config.Predicates != nil && handlers.Check == nil {
		return nil, invalid("Handlers.Check", "nil", "Predicates are set, so somebody must answer the checks")
	}
	if config.Predicates == nil && handlers.JudgeVictims != nil {
		return nil, invalid("Config.Predicates", "nil", "only an RM that answers predicate checks is asked about victims")
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	s := newState(config, config.Logger.With("rm", config.RMID))
	s.session.rmID = config.RMID
	s.session.instance = config.Instance
	s.session.registration.next = config.registration()
	s.session.callbacks = config.wanted(handlers)
	c := &Client{config: config, state: s, finished: make(chan struct{})}
	c.callbacks = &callbacks{state: s, handlers: handlers, start: c.start}
	if config.Predicates != nil {
		c.callbacks.judge = newJudge(s, handlers)
		c.callbacks.inOrder = config.Predicates.InOrder
	}
	return c, nil
}

// start runs a function in a goroutine, for which Run waits.
func (c *Client) start(function func()) {
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		function()
	}()
}

// Run connects, and connects again after every loss. It returns nil after Close, and after the end of ctx;
// both first send a goodbye to the server, within 10 seconds. Otherwise it returns the error that ended the
// client: a *FencedError, *UnauthorizedError, *ConfigError, *RegistrationError, *ProtocolError or *LostError.
// No handler runs after its return. It can be called only once.
func (c *Client) Run(ctx context.Context) error {
	s := c.state
	life, abort := context.WithCancel(context.Background())
	defer abort()
	if err := c.begin(abort); err != nil {
		return err
	}
	defer close(c.finished)
	stop := context.AfterFunc(ctx, func() { s.leave(false) })
	defer stop()
	c.start(c.callbacks.dispatch)
	judge := c.callbacks.judge
	if judge != nil && !c.callbacks.inOrder {
		c.start(judge.run)
	}
	connection := &connection{
		state: s, callbacks: c.callbacks, tls: c.config.TLS, token: c.config.Token, retry: c.config.Retry,
		backoff: newBackoff(c.config.Retry), addresses: newAddresses(c.config.targets(), c.config.mayDial),
	}
	failure := connection.run(life)
	var last func()
	if handler := c.callbacks.handlers.Session; handler != nil {
		last = func() { handler(SessionChange{State: SessionEnded, Address: s.address, Err: failure}) }
	}
	s.end(failure, last)
	if judge != nil {
		judge.close()
	}
	c.running.Wait()
	return failure
}

// begin records that Run was called, which abort can cancel.
func (c *Client) begin(abort func()) error {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.started {
		return errors.New("licorne: Run can be called once")
	}
	if s.failure != nil {
		return s.failure
	}
	c.started = true
	s.abort = abort
	return nil
}

// Ready waits until the server has all items for the first time and schedules the RM. If the client has
// ended, Ready returns the error that ended it.
func (c *Client) Ready(ctx context.Context) error {
	select {
	case <-c.state.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.failure
}

// UpdateNodes adds, changes and removes nodes. It returns when the items are stored and queued, and waits
// only while more than Limits.OutgoingBytes are queued. It returns an *InvalidError for an item that cannot
// be sent, and after the end of the client the error that ended it; then nothing was changed.
func (c *Client) UpdateNodes(request *si.NodeRequest) error {
	var few [8]int
	sizes, err := c.config.sizesOfNodes(few[:0], request)
	if err != nil {
		return err
	}
	return c.state.update(func(queue *packer) {
		for i, item := range request.GetNodes() {
			c.state.cache.node(item)
			if queue != nil {
				queue.node(item, sizes[i])
			}
		}
	})
}

// UpdateApplications adds and removes applications. It waits and returns errors like UpdateNodes.
func (c *Client) UpdateApplications(request *si.ApplicationRequest) error {
	var few [8]int
	sizes, err := c.config.sizesOfApplications(few[:0], request)
	if err != nil {
		return err
	}
	return c.state.update(func(queue *packer) {
		for i, item := range request.GetNew() {
			c.state.cache.addApp(item)
			if queue != nil {
				queue.newApplication(item, sizes[i])
			}
		}
		added := len(request.GetNew())
		for i, item := range request.GetRemove() {
			c.state.cache.removeApp(item)
			if queue != nil {
				queue.removedApplication(item, sizes[added+i])
			}
		}
	})
}

// UpdateAllocations adds asks and running allocations, and releases them. It waits and returns errors like
// UpdateNodes. The additions of a request are processed before its releases.
func (c *Client) UpdateAllocations(request *si.AllocationRequest) error {
	var few [8]int
	sizes, err := c.config.sizesOfAllocations(few[:0], request)
	if err != nil {
		return err
	}
	releases := request.GetReleases().GetAllocationsToRelease()
	now := time.Now().Unix()
	return c.state.update(func(queue *packer) {
		for i, item := range request.GetAllocations() {
			c.state.cache.ask(item, now)
			if queue != nil {
				queue.allocation(item, sizes[i])
			}
		}
		added := len(request.GetAllocations())
		for i, item := range releases {
			c.state.cache.release(item)
			if queue != nil {
				queue.release(item, sizes[added+i])
			}
		}
	})
}

// Assume records that a pending ask counts as placed on a node, so that a replay reports it as an allocation
// there. An empty node reverts this. Nothing is sent. The server's next allocation of the ask replaces the
// assumption, and is passed to the handlers. Assume returns false if the key has no pending ask. A call
// within Check may be too late for the replay of a new session; see Handlers.Dropped.
func (c *Client) Assume(allocationKey, nodeID string) bool {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.cache.assume(allocationKey, nodeID)
}

// Close sends queued items and a goodbye, and waits for the end of Run. The server retains the state of the
// RM for its next instance; with unregister it removes the RM and all its state. Close returns ErrNotTold if
// the goodbye did not reach the server, because there was no session, or an earlier goodbye was sent without
// unregister. If ctx ends first, Close returns its error, and Run is cancelled.
func (c *Client) Close(ctx context.Context, unregister bool) error {
	s := c.state
	s.leave(unregister)
	s.mu.Lock()
	started := c.started
	s.mu.Unlock()
	if !started {
		s.end(nil, nil)
		return ErrNotTold
	}
	select {
	case <-c.finished:
	case <-ctx.Done():
		s.mu.Lock()
		s.abort()
		s.mu.Unlock()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told || unregister && !s.forgotten {
		return ErrNotTold
	}
	return nil
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.OutgoingItems, stats.OutgoingBytes = s.out.packer.items, s.out.packer.bytes
	stats.IncomingItems = s.inbox.items
	stats.Nodes, stats.Applications = len(s.cache.nodes), len(s.cache.applications)
	for _, keys := range s.cache.byNode {
		stats.Allocations += len(keys)
	}
	stats.Asks = len(s.cache.asks) - stats.Allocations
	return stats
}

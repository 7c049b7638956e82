package licorne

import (
	"context"
	"errors"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// Client is one resource manager's connection to the server.
//
// It keeps what it was told, and tells the server again by itself after a restart of the server.
// All methods may be called from any goroutine.
//
// The items of a request belong to the client after the call: the caller may read them, but must
// not change them. The lists that hold them, and the request itself, are not kept.
type Client struct{}

// New makes a client and checks the configuration; an *InvalidError names what is wrong with it. It
// connects when Run is called.
func New(config Config, handlers Handlers) (*Client, error) { return nil, errors.ErrUnsupported }

// Run connects, and connects again after every loss. It returns nil after Close and after the end
// of ctx, both of which say goodbye to the server first, for 10 seconds at the most. Otherwise it
// returns the error that ended the client: a *FencedError, *UnauthorizedError, *ConfigError,
// *RegistrationError, *ProtocolError or *LostError. No handler runs after it. It can be called once.
func (c *Client) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Ready waits until the server has been told, for the first time, all that the client knows, and
// schedules the RM. It returns the error that ended the client if that came before.
func (c *Client) Ready(ctx context.Context) error { return errors.ErrUnsupported }

// UpdateNodes adds, changes and removes nodes. It returns when they are noted and queued. It waits
// only while more than Limits.OutgoingBytes are queued. It returns an *InvalidError for what can
// never be sent, and the error that ended the client after its end; nothing was done then.
func (c *Client) UpdateNodes(request *si.NodeRequest) error { return errors.ErrUnsupported }

// UpdateApplications adds and removes applications. It returns as UpdateNodes does.
func (c *Client) UpdateApplications(request *si.ApplicationRequest) error {
	return errors.ErrUnsupported
}

// UpdateAllocations adds asks and existing allocations, and releases them. It returns as
// UpdateNodes does.
func (c *Client) UpdateAllocations(request *si.AllocationRequest) error {
	return errors.ErrUnsupported
}

// Assume notes that a pending ask counts as placed on a node: a replay reports it as an allocation
// there. An empty node takes that back. Nothing is sent, and an answer of the server for the ask
// replaces it. It returns false if the key is that of no pending ask.
func (c *Client) Assume(allocationKey, nodeID string) bool { return false }

// UpdateConfiguration replaces the queue configuration, and what the next registration says. It
// returns a *ConfigError if the server refuses the queues, a *RegistrationError if it refuses the
// extra configuration, and a *LostError if it cannot be reached, after which either may be in force.
func (c *Client) UpdateConfiguration(ctx context.Context, queues string, extra map[string]string) error {
	return errors.ErrUnsupported
}

// Close sends what is queued, says goodbye, and waits for the end of Run. The server keeps the
// books of the RM for its next instance, unless unregister asks it to forget all of it. It returns
// ErrNotTold if there was no session to say so in, and the error of ctx if that ends first; Run is
// broken off then.
func (c *Client) Close(ctx context.Context, unregister bool) error { return errors.ErrUnsupported }

// Stats returns the counters.
func (c *Client) Stats() Stats { return Stats{} }

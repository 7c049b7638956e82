package licorne

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"licorne.dev/clients/go/licornev1"
)

// connection opens one stream after another until the client ends.
type connection struct {
	state     *state
	callbacks *callbacks
	tls       *tls.Config
	token     func() (string, error)
	retry     Retry
	backoff   *backoff
	addresses *addresses
	// redirects is the number of redirects since the last welcome.
	redirects int
	// refusedAt is the progress at the last refusal; zero before the first.
	refusedAt point
	// downSince is the time when the last session was lost; before the first session, of the start.
	downSince time.Time
}

// point is the progress of a client. If two points are equal, nothing was processed between them.
type point struct {
	// refused is true if a message was refused at this point.
	refused bool
	// live is true if no replay was needed; then processed is the number of the last processed request.
	live      bool
	processed uint64
	// replays is the number of completed replays.
	replays uint64
}

// run opens streams until the client is closed, or returns the error that ends the client. The end of ctx
// cancels it.
func (c *connection) run(ctx context.Context) error {
	c.downSince = time.Now()
	for !c.state.isLeaving() {
		wait, err := c.attempt(ctx)
		if c.state.isLeaving() {
			return nil
		}
		if err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.state.leaving:
		}
		timer.Stop()
	}
	return nil
}

// attempt opens a stream and uses it until it ends. It returns the wait before the next stream, or the error
// that ends the client.
func (c *connection) attempt(ctx context.Context) (time.Duration, error) {
	s := c.state
	s.mu.Lock()
	address := c.addresses.current
	s.stats.Streams++
	s.address = address
	s.mu.Unlock()
	st, err := c.stream(ctx, address)
	if err != nil {
		return c.lost(st, address, err)
	}
	if st.goodbyeSaid.Load() && s.isLeaving() {
		s.mu.Lock()
		s.told, s.forgotten = true, st.unregistering
		s.mu.Unlock()
	}
	if st.redirect != "" {
		return c.redirected(address, st.redirect)
	}
	c.backoff.reset()
	c.redirects = 0
	c.downSince = time.Now()
	s.mu.Lock()
	c.addresses.leave(c.downSince)
	s.mu.Unlock()
	retryAfter := time.Duration(st.drained.Load())
	if retryAfter <= 0 {
		retryAfter = c.retry.Initial
	}
	return c.backoff.told(retryAfter), nil
}

func (c *connection) stream(ctx context.Context, address string) (*stream, error) {
	conn, err := dial(address, c.tls, c.token)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rpc, err := licornev1.NewSessionClient(conn).Update(ctx)
	if err != nil {
		return nil, err
	}
	st := newStream(c.state, c.callbacks, c.addresses, rpc, cancel)
	return st, st.run(ctx)
}

// redirected switches to another address; it returns the wait, or the error that ends the client. Only the
// first redirect is followed at once, so that servers that redirect to each other are not overrun.
func (c *connection) redirected(from, to string) (time.Duration, error) {
	c.state.mu.Lock()
	c.addresses.redirected(to)
	c.state.mu.Unlock()
	c.redirects++
	wait := time.Duration(0)
	if c.redirects > 1 {
		wait = c.backoff.next()
	}
	c.state.log.Info("redirected", "from", from, "to", to, "wait", wait)
	return wait, c.givesUp(from, fmt.Sprintf("redirected %d times, to %s last", c.redirects, to))
}

// givesUp returns the error that ends the client if there was no session for too long, and nil otherwise.
func (c *connection) givesUp(address, text string) error {
	if patience := c.retry.GiveUpAfter; patience > 0 && time.Since(c.downSince) >= patience {
		return &LostError{fmt.Sprintf("no session with %s for %v: %s", address, patience, text)}
	}
	return nil
}

// lost handles a failed stream or attempt. It returns the wait before the next stream, or the error that ends
// the client.
func (c *connection) lost(st *stream, address string, reason error) (time.Duration, error) {
	refusal := refused(reason)
	var protocolError *ProtocolError
	if errors.As(reason, &protocolError) {
		refusal = protocolError
	}
	if refusal != nil && !c.isForeign(st, refusal) {
		if refusesRegistration(refusal) && c.fallBack(address, refusal) {
			return c.backoff.next(), nil
		}
		if !mayPass(refusal) || c.refusedAgain(st) {
			return 0, refusal
		}
	}
	text := reason.Error()
	answer, isStatus := status.FromError(reason)
	if isStatus {
		text = textOf(answer)
	}
	s := c.state
	s.log.Warn("no connection", "address", address, "reason", text)
	if st != nil && !st.welcomedAt.IsZero() {
		c.backoff.lasted(time.Since(st.welcomedAt))
		c.redirects = 0
		c.downSince = time.Now()
		s.mu.Lock()
		lost := fmt.Errorf("licorne: the stream to %s was lost: %w", address, reason)
		c.callbacks.session(SessionChange{State: SessionLost, Address: address, Err: lost})
		s.mu.Unlock()
	}
	if err := c.givesUp(address, text); err != nil {
		return 0, err
	}
	wanted := wantedWait(answer)
	answered := refusal != nil || isStatus && (wanted > 0 || answer.Code() != codes.Unavailable)
	switch atOnce := c.next(st, answered); {
	case wanted > 0:
		return c.backoff.told(wanted), nil
	case atOnce:
		return 0, nil
	case !isStatus:
		return c.backoff.next(), nil
	case answer.Code() == codes.ResourceExhausted:
		return c.backoff.nextExhausted(), nil
	default:
		return c.backoff.next(), nil
	}
}

// next switches to the next address. It returns true if that address should be dialed at once.
func (c *connection) next(st *stream, answered bool) bool {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if st != nil && !st.welcomedAt.IsZero() {
		c.addresses.lost()
		return false
	}
	return c.addresses.failed(time.Now(), answered)
}

// isForeign returns true if the refusal may not be from a Licorne server: only another one named its address.
func (c *connection) isForeign(st *stream, refusal error) bool {
	var fenced *FencedError
	if errors.As(refusal, &fenced) || st != nil && !st.welcomedAt.IsZero() {
		return false
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.addresses.refused()
}

// refusedAgain records a refused message. One corrupted byte is enough for a refusal, so the message is sent
// again: by a resumption, or by a replay if a replay was refused or nothing was processed since the last
// refusal. It returns true if a replay is refused a second time without progress; the client must then end.
func (c *connection) refusedAgain(st *stream) bool {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	at := point{refused: true, replays: s.stats.Replayed}
	if st != nil && !st.welcomedAt.IsZero() && !s.cache.replaying {
		at.live, at.processed = true, s.session.processed
	}
	again := at == c.refusedAt
	c.refusedAt = at
	if again || !at.live {
		// The cache has all queued items.
		s.session.forget()
		s.out.close()
	}
	return again && !at.live
}

// fallBack reverts the next hello to the last accepted registration, and reports the refusal to the handlers.
// It returns false if there is no such registration.
func (c *connection) fallBack(address string, refusal error) bool {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.session.registration.fallBack() {
		return false
	}
	s.log.Error("the server refused the new configuration; the one before it stays", "address", address, "reason", refusal)
	c.callbacks.session(SessionChange{State: SessionRefused, Address: address, Err: refusal})
	return true
}

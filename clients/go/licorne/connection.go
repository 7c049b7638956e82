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

// connection opens one stream after the other, for as long as the client lives.
type connection struct {
	state     *state
	callbacks *callbacks
	tls       *tls.Config
	token     func() (string, error)
	retry     Retry
	backoff   *backoff
	addresses *addresses
	// redirects counts those since the last session.
	redirects int
	// refusedAt is how far the client had come at the last refusal; zero before the first.
	refusedAt point
	// downSince is when the last session was lost, or the first one sought.
	downSince time.Time
}

// point is how far a client has come. Nothing was dealt with between two equal ones.
type point struct {
	// refused says that a message was refused there.
	refused bool
	// live says that no replay is needed, and processed is the last request that was dealt with then.
	live      bool
	processed uint64
	// replays is how many were complete.
	replays uint64
}

// run opens streams until the client leaves, or returns the error that ends it. The end of ctx breaks
// it off.
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

// attempt opens a stream and uses it to its end. It returns how long to wait before the next one, or
// the error that ends the client.
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

// redirected goes on at another address. Only the first redirect is followed at once, so that servers
// which send us to each other are not overrun. It returns what lost returns.
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

// givesUp is the error that ends the client if there was no session for too long.
func (c *connection) givesUp(address, text string) error {
	if patience := c.retry.GiveUpAfter; patience > 0 && time.Since(c.downSince) >= patience {
		return &LostError{fmt.Sprintf("no session with %s for %v: %s", address, patience, text)}
	}
	return nil
}

// lost decides what follows a failure. It returns how long to wait before the next stream, or the
// error that ends the client.
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

// next makes the next address the current one. It returns whether that is to be dialed at once.
func (c *connection) next(st *stream, answered bool) bool {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if st != nil && !st.welcomedAt.IsZero() {
		c.addresses.lost()
		return false
	}
	return c.addresses.failed(time.Now(), answered)
}

// isForeign says whether what a server has refused says nothing about ours: only another one has named it.
func (c *connection) isForeign(st *stream, refusal error) bool {
	var fenced *FencedError
	if errors.As(refusal, &fenced) || st != nil && !st.welcomedAt.IsZero() {
		return false
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.addresses.refused()
}

// refusedAgain notes a refused message. One byte that was changed on the way is enough for a refusal, so
// the message is sent again: by a resumption, or by a replay if the replay was refused. If nothing was
// dealt with since the last refusal, a replay takes the place of the resumption. It returns true if that
// was refused too, so that it would be refused for ever.
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
		// The cache has everything that is queued.
		s.session.forget()
		s.out.close()
	}
	return again && !at.live
}

// fallBack makes the next hello say a registration that was accepted before, and tells of the refusal.
// It returns false if there is none.
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

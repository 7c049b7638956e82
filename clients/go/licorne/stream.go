package licorne

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"licorne.dev/clients/go/licornev1"
)

const (
	// welcomeTime is the time in which a server must answer a hello.
	welcomeTime = 30 * time.Second
	// grace is the time in which a server must end a stream after the client's goodbye.
	grace = 5 * time.Second
	// silence is the number of heartbeat intervals without a response after which the server counts as lost.
	silence = 3
	// usualHeartbeat and usualItems apply if the welcome has no values.
	usualHeartbeat = 30 * time.Second
	usualItems     = 1000
)

type call = grpc.BidiStreamingClient[licornev1.UpdateRequest, licornev1.UpdateResponse]

// lostError is the reason why a stream broke, if it is not a gRPC status.
type lostError string

func (e lostError) Error() string { return string(e) }

// stream is one call of Session.Update: a hello, a welcome, a replay or resumption, and then messages in both
// directions. One goroutine reads and one writes, both for the lifetime of the stream.
type stream struct {
	state     *state
	callbacks *callbacks
	// addresses gets the addresses of other members. The state's lock guards it.
	addresses *addresses
	call      call
	// cancel cancels the call, with a reason.
	cancel    context.CancelCauseFunc
	heartbeat time.Duration
	maxItems  int
	// repeats has the requests of earlier streams to send again after a resumption.
	repeats []*batch
	// replay is the replay to send first; nil if the session was resumed, and after the replay.
	replay *replay
	// readingSince is the start of the wait for a response, in nanoseconds since welcomedAt; -1 without a
	// wait.
	readingSince atomic.Int64
	// over is true once the stream is ending, so that the reader no longer waits. The state's lock guards it.
	over bool
	// drained is the wait requested by a server that is about to stop; -1 without such a request.
	drained atomic.Int64
	// goodbyeSaid is true once the client has sent a goodbye, and goodbyeHeard once the server has.
	goodbyeSaid, goodbyeHeard atomic.Bool
	// unregistering is true if the client's goodbye asks to remove the RM. The state's lock guards it.
	unregistering bool
	// readDone is closed when the reader has ended, with readError as the reason.
	readDone  chan struct{}
	readError error

	// welcomedAt is the time of the welcome; zero before.
	welcomedAt time.Time
	// redirect is the address to which the server redirects the client; empty without a redirect.
	redirect string
}

func newStream(
	s *state, callbacks *callbacks, known *addresses, c call, cancel context.CancelCauseFunc,
) *stream {
	st := &stream{
		state: s, callbacks: callbacks, addresses: known, call: c, cancel: cancel,
		heartbeat: usualHeartbeat, maxItems: usualItems, readDone: make(chan struct{}),
	}
	st.drained.Store(-1)
	return st
}

// run uses the stream until it ends. It returns nil after a goodbye of either side or a redirect, and
// otherwise the reason why the stream broke.
func (st *stream) run(ctx context.Context) error {
	err := st.talk(ctx)
	var own lostError
	if err != nil && errors.As(context.Cause(ctx), &own) && status.Code(err) == codes.Canceled {
		err = own
	}
	st.cancel(nil)
	s := st.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.replay != nil {
		s.session.forget()
	}
	s.out.pause(s.session.resumable())
	return err
}

func (st *stream) talk(ctx context.Context) error {
	welcome, err := st.greet()
	if err != nil {
		return err
	}
	if st.redirect = welcome.GetWelcome().GetRedirect(); st.redirect != "" {
		return nil
	}
	if err := st.begin(welcome); err != nil {
		return err
	}
	watch := st.watchSilence(ctx)
	defer watch.Stop()
	go st.read()
	return st.end(st.write())
}

// end lets the server end the stream after the last write, or cancels the call. It returns the reason for the
// end of the stream.
func (st *stream) end(writeError error) error {
	st.state.mu.Lock()
	st.over = true
	st.state.inbox.changed.Broadcast()
	st.state.mu.Unlock()
	if writeError == nil || errors.Is(writeError, io.EOF) {
		// A failed write does not have the reason why the stream broke; the reader has it.
		writeError = nil
		st.awaitEnd()
	}
	st.cancel(lostError("the server did not end the stream"))
	<-st.readDone
	switch {
	case writeError != nil:
		return writeError
	case st.readError != nil:
		return st.readError
	case st.goodbyeSaid.Load() || st.goodbyeHeard.Load():
		return nil
	default:
		return lostError("the stream ended without a goodbye")
	}
}

// awaitEnd waits at most grace for the server to end the stream.
func (st *stream) awaitEnd() {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-st.readDone:
	case <-timer.C:
	}
}

func (st *stream) greet() (*licornev1.UpdateResponse, error) {
	timer := time.AfterFunc(welcomeTime, func() {
		st.cancel(lostError(fmt.Sprintf("no welcome within %v", welcomeTime)))
	})
	defer timer.Stop()
	st.state.mu.Lock()
	hello := st.state.session.hello()
	st.state.mu.Unlock()
	// A failed write only means that the stream has ended; the read has the reason.
	if err := st.call.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	response, err := st.call.Recv()
	if errors.Is(err, io.EOF) {
		return nil, lostError("the stream ended before its welcome")
	}
	if err != nil {
		return nil, err
	}
	if response.GetWelcome() == nil {
		return nil, &ProtocolError{"the server's first message is no welcome"}
	}
	return response, nil
}

func (st *stream) begin(response *licornev1.UpdateResponse) error {
	s := st.state
	s.mu.Lock()
	defer s.mu.Unlock()
	welcome := response.GetWelcome()
	if seconds := welcome.GetHeartbeatSeconds(); seconds > 0 {
		st.heartbeat = time.Duration(seconds) * time.Second
	}
	if items := welcome.GetMaxItems(); items > 0 {
		st.maxItems = int(items)
	}
	repeats, err := s.session.welcome(response)
	if err != nil {
		return lostError(err.Error())
	}
	st.welcomedAt = time.Now()
	st.addresses.welcomed(welcome.GetOtherMembers())
	s.out.begin(st.maxItems)
	if welcome.GetResumed() {
		st.repeats = repeats
		s.stats.Resumed++
		st.callbacks.session(SessionChange{State: SessionResumed, Address: s.address})
		if !s.cache.replaying {
			s.live()
		}
		return nil
	}
	// The snapshot includes all queued items. Later changes are sent after the replay.
	s.out.clear()
	st.callbacks.begin()
	st.replay = s.cache.snapshot()
	return nil
}

// watchSilence cancels the stream if the server is silent. Time in which the reader waits for slow handlers
// does not count.
func (st *stream) watchSilence(ctx context.Context) *time.Timer {
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(st.heartbeat, func() {
		<-ready
		since := st.readingSince.Load()
		if since >= 0 && time.Since(st.welcomedAt)-time.Duration(since) > silence*st.heartbeat {
			st.cancel(lostError("the server has fallen silent"))
		} else if ctx.Err() == nil {
			timer.Reset(st.heartbeat)
		}
	})
	close(ready)
	return timer
}

// read applies responses until the stream ends.
func (st *stream) read() {
	defer close(st.readDone)
	for {
		st.readingSince.Store(int64(time.Since(st.welcomedAt)))
		response, err := st.call.Recv()
		st.readingSince.Store(-1)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = st.take(response)
		}
		if err != nil {
			st.readError = err
			st.cancel(nil)
			return
		}
	}
}

// take applies a response, and waits while the inbox is full.
func (st *stream) take(response *licornev1.UpdateResponse) error {
	s := st.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Received++
	accepted, err := s.session.accepts(response)
	if err != nil {
		return lostError(err.Error())
	}
	if !accepted {
		return nil
	}
	if drain := response.GetDrain(); drain != nil {
		st.drain(drain)
	}
	if notice := response.GetNotice(); notice != nil {
		st.state.log.Warn("the server notes", "code", notice.GetCode(), "message", notice.GetMessage())
	}
	if others := response.GetOtherMembers(); others != nil {
		st.addresses.tell(others.GetAddresses())
	}
	if response.GetGoodbye() != nil {
		st.goodbyeHeard.Store(true)
	}
	if err := st.callbacks.deliver(response); err != nil {
		return lostError(err.Error())
	}
	for !st.over && s.inbox.full() {
		s.inbox.changed.Wait()
	}
	return nil
}

func (st *stream) drain(drain *licornev1.Drain) {
	retryAfter := time.Duration(drain.GetRetryAfterMilliseconds()) * time.Millisecond
	st.drained.Store(int64(retryAfter))
	// Later items wait for the next stream.
	st.state.out.seal()
	st.state.log.Info("the server is about to stop", "reason", drain.GetReason(), "retry_after", retryAfter)
	st.callbacks.session(SessionChange{
		State: SessionDraining, Address: st.state.address, RetryAfter: retryAfter,
	})
	st.state.wakeWriter()
}

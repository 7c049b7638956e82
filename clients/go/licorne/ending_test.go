package licorne_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc/codes"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// finalErrors has the final errors of streams, the type of each, and whether a corrupted byte may be the
// cause, so that it must occur twice.
var finalErrors = map[string]struct {
	status error
	is     func(error) bool
	twice  bool
}{
	"unauthenticated": {refusal(codes.Unauthenticated, "who?", ""), isA[*licorne.UnauthorizedError], false},
	"permission":      {refusal(codes.PermissionDenied, "not you", ""), isA[*licorne.UnauthorizedError], false},
	"aborted":         {refusal(codes.Aborted, "fenced", ""), isA[*licorne.FencedError], false},
	"fenced":          {refusal(codes.FailedPrecondition, "older", "INSTANCE_FENCED"), isA[*licorne.FencedError], false},
	"protocol":        {refusal(codes.FailedPrecondition, "protocol 1", "PROTOCOL_UNKNOWN"), isA[*licorne.ProtocolError], true},
	"unimplemented":   {refusal(codes.Unimplemented, "no such service", ""), isA[*licorne.ProtocolError], true},
	"argument":        {refusal(codes.InvalidArgument, "a number is wrong", "", "number"), isA[*licorne.ProtocolError], true},
	"registration": {
		refusal(codes.InvalidArgument, "registration of RM failed: version is too long", "", "version"),
		isA[*licorne.RegistrationError], true,
	},
	"configuration": {
		refusal(codes.InvalidArgument, "registration of RM failed: one\ntwo", "CONFIG_INVALID", "queues"),
		func(err error) bool {
			var invalid *licorne.ConfigError
			return errors.As(err, &invalid) && strings.Join(invalid.Problems, "|") == "one|two"
		}, true,
	},
}

// Each final error ends the client, with an error of the right type.
func TestFinalErrors(t *testing.T) {
	for name, c := range finalErrors {
		t.Run(name, func(t *testing.T) {
			server := serve(t)
			r := run(t, server.address)
			server.accept().end(c.status)
			if c.twice {
				server.accept().end(c.status)
			}
			err := r.awaitEnd()
			if !c.is(err) {
				t.Fatalf("Run returned %T: %v", err, err)
			}
			if ready := r.client.Ready(context.Background()); !errors.Is(ready, err) {
				t.Fatalf("Ready returned %v", ready)
			}
			if later := r.client.UpdateAllocations(nil); !isA[*licorne.InvalidError](later) {
				t.Fatalf("a call without a request returned %v", later)
			}
			if later := r.client.UpdateNodes(nodeRequest("n1")); !errors.Is(later, err) {
				t.Fatalf("a later call returned %v", later)
			}
		})
	}
}

// After any other end of a stream the client tries again.
func TestOtherErrors(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	for _, status := range []error{
		refusal(codes.Unavailable, "later", ""), refusal(codes.Internal, "a defect", ""),
		refusal(codes.ResourceExhausted, "too many", ""), refusal(codes.FailedPrecondition, "who?", "RM_NOT_REGISTERED"), nil,
	} {
		server.accept().end(status)
	}
	server.register()
	r.ready()
}

// A message that was refused once is sent again: on the resumed session, then in a replay. If every replay
// is refused too, the client ends.
func TestRefusedForEver(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	refused := refusal(codes.InvalidArgument, "malformed message", "")
	first, _ := server.register()
	r.ready()
	r.nodes(node("n1", si.NodeInfo_CREATE))
	number := first.next().GetNumber()
	first.end(refused)
	second := server.resume(first, number-1)
	expectSaid(t, []*licornev1.UpdateRequest{second.next()}, "CREATE n1")
	second.end(refused)
	for range 2 {
		stream := server.accept()
		if stream.hello.GetResumeToken() != "" {
			t.Fatal("a refused session is resumed again")
		}
		stream.welcome(&licornev1.Welcome{}, 0)
		stream.end(refused)
	}
	if err := r.awaitEnd(); !isA[*licorne.ProtocolError](err) {
		t.Fatalf("Run returned %v", err)
	}
}

// With GiveUpAfter, the client ends if there is no session in time.
func TestGiveUp(t *testing.T) {
	server := serve(t)
	server.grpc.Stop()
	r := run(t, server.address, func(config *licorne.Config, _ *licorne.Handlers) { config.Retry.GiveUpAfter = time.Millisecond })
	if err := r.awaitEnd(); !isA[*licorne.LostError](err) {
		t.Fatalf("Run returned %v", err)
	}
}

// At the end of the context the client sends queued items and a goodbye, and Run returns nil.
func TestGoodbyeAtEndOfContext(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream, _ := server.register()
	r.ready()
	blockWriter(t, r)
	r.asks(ask("last"))
	r.cancel()
	var lines []string
	for len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], "goodbye") {
		lines = append(lines, said(stream.next())...)
	}
	if ending := strings.Join(lines[len(lines)-2:], ","); ending != "ask last,goodbye false" {
		t.Fatalf("the stream ends with %s", ending)
	}
	stream.end(nil)
	if err := r.awaitEnd(); err != nil {
		t.Fatalf("Run returned %v", err)
	}
	if err := r.client.UpdateNodes(nodeRequest("n1")); !errors.Is(err, licorne.ErrClosed) {
		t.Fatalf("a later call returned %v", err)
	}
	if err := r.client.Close(context.Background(), false); err != nil {
		t.Fatalf("Close returned %v", err)
	}
}

// Close can ask the server to remove the RM. The end is the last event for the handlers.
func TestUnregister(t *testing.T) {
	server := serve(t)
	var r *rm
	r = newRM(t, server.address, func(_ *licorne.Config, handlers *licorne.Handlers) {
		handlers.Session = func(change licorne.SessionChange) { r.sessions(change) }
	})
	r.start()
	stream, _ := server.register()
	r.ready()
	closed := make(chan error, 1)
	go func() { closed <- r.client.Close(context.Background(), true) }()
	expectSaid(t, []*licornev1.UpdateRequest{stream.next()}, "goodbye true")
	stream.end(nil)
	if err := <-closed; err != nil {
		t.Fatalf("Close returned %v", err)
	}
	r.expect("session replayed", "session ended")
}

// Close returns ErrNotTold if the goodbye cannot be sent.
func TestCloseWithoutSession(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	server.accept()
	if err := r.client.Close(context.Background(), true); !errors.Is(err, licorne.ErrNotTold) {
		t.Fatalf("Close returned %v", err)
	}
	idle := newRM(t, server.address)
	if err := idle.client.Close(context.Background(), false); !errors.Is(err, licorne.ErrNotTold) {
		t.Fatalf("Close returned %v", err)
	}
	if err := idle.client.Run(context.Background()); !errors.Is(err, licorne.ErrClosed) {
		t.Fatalf("Run returned %v", err)
	}
}

// Close returns when its context ends.
func TestCloseInTime(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	server.register()
	r.ready()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := r.client.Close(ctx, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Close returned %v", err)
	}
	if err := r.awaitEnd(); err != nil {
		t.Fatalf("Run returned %v", err)
	}
}

// A draining server gets a goodbye after all queued items. The client connects again and resumes.
func TestDrain(t *testing.T) {
	server := serve(t)
	var r *rm
	r = newRM(t, server.address, func(_ *licorne.Config, handlers *licorne.Handlers) {
		handlers.Session = func(change licorne.SessionChange) { r.sessions(change) }
	})
	r.start()
	first, _ := server.register()
	r.ready()
	first.drain(5)
	goodbye := first.next()
	expectSaid(t, []*licornev1.UpdateRequest{goodbye}, "goodbye false")
	first.end(nil)
	server.resume(first, goodbye.GetNumber())
	r.expect("session replayed", "session draining", "session resumed")
}

// A caller that never pauses does not prevent the end of a stream: the goodbye follows the items that were
// queued at the drain, and later items are sent on the next stream.
func TestDrainOfABusyClient(t *testing.T) {
	server := serve(t)
	var r *rm
	r = newRM(t, server.address, func(_ *licorne.Config, handlers *licorne.Handlers) {
		handlers.Session = func(change licorne.SessionChange) { r.sessions(change) }
	})
	r.start()
	first, _ := server.register()
	r.ready()
	blockWriter(t, r)
	r.asks(ask("queued"))
	first.drain(5)
	r.expect("session replayed", "session draining")
	r.asks(ask("later"))
	first.next()
	first.next()
	goodbye := []*licornev1.UpdateRequest{first.next(), first.next()}
	expectSaid(t, goodbye, "ask queued", "goodbye false")
	first.end(nil)
	second := server.resume(first, first.processed)
	expectSaid(t, []*licornev1.UpdateRequest{second.next()}, "ask later")
}

// noticing is a context that signals when a wait for its end begins.
type noticing struct {
	context.Context
	waiting func()
}

func (n noticing) Done() <-chan struct{} {
	n.waiting()
	return n.Context.Done()
}

// closing calls Close, and returns when that waits for the end. The channel gets the result.
func closing(r *rm, unregister bool) <-chan error {
	waiting, closed := make(chan struct{}), make(chan error, 1)
	ctx := noticing{context.Background(), sync.OnceFunc(func() { close(waiting) })}
	go func() { closed <- r.client.Close(ctx, unregister) }()
	<-waiting
	return closed
}

// Close sends the queued items, but not those that are queued later by a caller that never pauses.
func TestCloseOfABusyClient(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream, _ := server.register()
	r.ready()
	blockWriter(t, r)
	r.asks(ask("queued"))
	closed := closing(r, false)
	r.asks(ask("later"))
	stream.next()
	stream.next()
	expectSaid(t, []*licornev1.UpdateRequest{stream.next(), stream.next()}, "ask queued", "goodbye false")
	stream.end(nil)
	if err := <-closed; err != nil {
		t.Fatalf("Close returned %v", err)
	}
}

// After the goodbye for a drain, Close with unregister returns ErrNotTold.
func TestUnregisterAfterADrain(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream, _ := server.register()
	r.ready()
	stream.drain(60_000)
	expectSaid(t, []*licornev1.UpdateRequest{stream.next()}, "goodbye false")
	closed := closing(r, true)
	stream.end(nil)
	if err := <-closed; !errors.Is(err, licorne.ErrNotTold) {
		t.Fatalf("Close returned %v", err)
	}
}

// The loss of a stream is reported, with the reason.
func TestLostIsTold(t *testing.T) {
	server := serve(t)
	lost := make(chan licorne.SessionChange, 8)
	r := run(t, server.address, func(_ *licorne.Config, handlers *licorne.Handlers) {
		handlers.Session = func(change licorne.SessionChange) { lost <- change }
	})
	first, _ := server.register()
	r.ready()
	<-lost
	first.cut()
	if change := <-lost; change.State != licorne.SessionLost || !strings.Contains(change.Err.Error(), "cut by the test") {
		t.Fatalf("told: %+v", change)
	}
}

// The client leaves a silent server.
func TestSilence(t *testing.T) {
	server := serve(t)
	run(t, server.address)
	stream := server.accept()
	stream.welcome(&licornev1.Welcome{ResumeToken: "token", HeartbeatSeconds: 1}, 0)
	stream.takeReplay()
	heartbeat := stream.receive()
	if heartbeat.GetHeartbeat() == nil {
		t.Fatalf("no heartbeat: %v", heartbeat)
	}
	if again := server.accept(); again.hello.GetResumeToken() != "token" {
		t.Fatal("the hello does not ask to resume")
	}
}

func isA[E error](err error) bool {
	var wanted E
	return errors.As(err, &wanted)
}

package licorne_test

import (
	"bytes"
	"io"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// redirect accepts a stream, and redirects the client to another address.
func (s *scripted) redirect(to string) {
	s.t.Helper()
	stream := s.accept()
	stream.welcome(&licornev1.Welcome{Redirect: to}, 0)
	stream.end(nil)
}

// After a redirect the client uses another address. It returns there after a loss, and to the redirecting
// address if there is no server.
func TestRedirect(t *testing.T) {
	front, back := serve(t), serve(t)
	r := run(t, front.address)
	front.redirect(back.address)
	second, _ := back.register()
	r.ready()
	second.cut()
	back.accept().cut()
	back.grpc.Stop()
	front.accept()
}

// A client with one address continues at an address that the server named, in the welcome or later.
func TestToldAddress(t *testing.T) {
	first, second, third := serve(t), serve(t), serve(t)
	r := run(t, first.address)
	stream := first.accept()
	stream.welcome(&licornev1.Welcome{ResumeToken: "token", OtherMembers: []string{second.address}}, 0)
	stream.takeReplay()
	stream.replayComplete()
	r.ready()
	first.grpc.Stop()
	stream, _ = second.register()
	stream.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_OtherMembers{
		OtherMembers: &licornev1.OtherMembers{Addresses: []string{"127.0.0.1:1", third.address}},
	}})
	stream.awaitAcknowledged()
	second.grpc.Stop()
	third.register()
}

// A refusal at an address that only a server named is ignored; at the client's own address it is final.
func TestStranger(t *testing.T) {
	own, stranger := serve(t), serve(t)
	r := run(t, own.address)
	stream := own.accept()
	stream.welcome(&licornev1.Welcome{ResumeToken: "token", OtherMembers: []string{stranger.address}}, 0)
	stream.takeReplay()
	stream.replayComplete()
	r.ready()
	stream.cut()
	own.accept().cut()
	stranger.accept().end(status.Error(codes.Unauthenticated, "who are you"))
	own.accept().end(status.Error(codes.Unauthenticated, "who are you"))
	<-r.ended
	if !isA[*licorne.UnauthorizedError](r.err) {
		t.Fatalf("Run returned %v", r.err)
	}
}

// writer makes a log readable while it is written.
type writer chan []byte

func (w writer) Write(line []byte) (int, error) {
	w <- bytes.Clone(line)
	return len(line), nil
}

// The first redirect after a session is followed at once; the next one is delayed, as after a failure.
func TestRedirectsWait(t *testing.T) {
	front, back := serve(t), serve(t)
	lines := make(writer, 100)
	r := run(t, front.address, func(config *licorne.Config, _ *licorne.Handlers) {
		config.Retry.Initial, config.Retry.Maximum = 1000*time.Hour, 1000*time.Hour
		config.Logger = slog.New(slog.NewTextHandler(lines, nil))
	})
	front.redirect(back.address)
	first, _ := back.register()
	r.ready()
	// After a goodbye of the server, the server determines the wait.
	first.drain(1)
	for said := first.receive(); said.GetGoodbye() == nil; {
		said = first.receive()
	}
	first.end(nil)
	front.redirect(back.address)
	back.redirect(front.address)
	var waits []string
	for waited := regexp.MustCompile(`msg=redirected .*wait=(\S+)`); len(waits) < 3; {
		select {
		case line := <-lines:
			if found := waited.FindSubmatch(line); found != nil {
				waits = append(waits, string(found[1]))
			}
		case <-time.After(patience):
			t.Fatalf("only %d redirects were told", len(waits))
		}
	}
	if waits[0] != "0s" || waits[1] != "0s" || waits[2] == "0s" {
		t.Fatalf("the redirects waited %v", waits)
	}
}

// The client gives up in time if servers redirect to each other without end.
func TestRedirectsForEver(t *testing.T) {
	server := serve(t)
	r := run(t, server.address, func(config *licorne.Config, _ *licorne.Handlers) {
		config.Retry.GiveUpAfter = time.Millisecond
		config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	})
	for deadline := time.After(patience); ; {
		select {
		case stream := <-server.streams:
			stream.welcome(&licornev1.Welcome{Redirect: server.address}, 0)
			stream.end(nil)
		case <-r.ended:
			if !isA[*licorne.LostError](r.err) {
				t.Fatalf("Run returned %v", r.err)
			}
			return
		case <-deadline:
			t.Fatal("the client did not give up")
		}
	}
}

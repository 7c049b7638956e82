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

// redirect accepts a stream and sends the client to another address.
func (s *scripted) redirect(to string) {
	s.t.Helper()
	stream := s.accept()
	stream.welcome(&licornev1.Welcome{Redirect: to}, 0)
	stream.end(nil)
}

// A redirect makes the client go on at another address. It comes back there after a loss, and to the server that
// has redirected it if there is no server any more.
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

// A client of one address goes on at one that it was told, by the welcome or while the session lasts.
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

// A refusal at an address that was told alone is that of a stranger; at the client's own address it is final.
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

// The first redirect after a session is followed at once. The next one waits, as a failure does.
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
	// After a session a goodbye of the server has its own wait, of which the server decides.
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

// Servers that redirect to each other for ever are no session: the client gives up in time.
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

package licorne_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// configured is an RM in its first session, registered with the queues "old" and an extra configuration.
func configured(t *testing.T, server *scripted) (*rm, *scriptedStream) {
	t.Helper()
	var r *rm
	r = newRM(t, server.address, func(config *licorne.Config, handlers *licorne.Handlers) {
		config.Queues, config.PolicyGroup = "old", "group"
		config.ExtraConfig = map[string]string{"a": "1", "b": "2"}
		handlers.Session = func(change licorne.SessionChange) {
			if change.State == licorne.SessionRefused {
				r.tell("refused: %v", change.Err)
			}
		}
	})
	r.start()
	stream, _ := server.register()
	r.ready()
	return r, stream
}

// answering makes the server answer every new configuration with an error, or accept it.
func (s *scripted) answering(err error) {
	s.configure = func(*licornev1.UpdateConfigurationRequest) error { return err }
}

func badConfig(problem string) error {
	return refusal(codes.InvalidArgument, "registration of RM failed: "+problem, "CONFIG_INVALID")
}

// expectRegistration accepts a stream, and checks the configuration that its hello registers with.
func expectRegistration(t *testing.T, server *scripted, queues, b string) *scriptedStream {
	t.Helper()
	stream := server.accept()
	registration := stream.hello.GetRegistration()
	extra := registration.GetExtraConfig()
	if registration.GetConfig() != queues || extra["a"] != "1" || extra["b"] != b {
		t.Fatalf("the registration is %v, not queues %s and b=%s", registration, queues, b)
	}
	return stream
}

// The next registration has a new queue configuration, unless the server refused it.
func TestUpdateConfiguration(t *testing.T) {
	server := serve(t)
	r, first := configured(t, server)
	server.configure = func(request *licornev1.UpdateConfigurationRequest) error {
		if request.GetRmId() != "rm1" || request.GetPolicyGroup() != "group" || request.GetConfig() != "new" {
			t.Errorf("request: %v", request)
		}
		return nil
	}
	r.must(r.client.UpdateConfiguration(context.Background(), "new", map[string]string{"b": "3"}))
	server.answering(refusal(codes.InvalidArgument, "refused: line 1: odd", "CONFIG_INVALID"))
	var refused *licorne.ConfigError
	err := r.client.UpdateConfiguration(context.Background(), "odd", nil)
	if !errors.As(err, &refused) || len(refused.Problems) != 1 || refused.Problems[0] != "line 1: odd" {
		t.Fatalf("UpdateConfiguration returned %v", err)
	}
	first.cut()
	expectRegistration(t, server, "new", "3")
}

// The next registration has a configuration that could not be sent, which then counts as accepted.
func TestConfigurationIsTold(t *testing.T) {
	server := serve(t)
	r, first := configured(t, server)
	server.answering(refusal(codes.Unavailable, "later", ""))
	err := r.client.UpdateConfiguration(context.Background(), "new", map[string]string{"b": "3"})
	if !isA[*licorne.LostError](err) {
		t.Fatalf("UpdateConfiguration returned %v", err)
	}
	first.cut()
	second := expectRegistration(t, server, "new", "3")
	second.stamp = [2]uint64{2, 1}
	second.register()
	second.cut()
	for range 2 {
		expectRegistration(t, server, "new", "3").end(badConfig("no more"))
	}
	if err := r.awaitEnd(); !isA[*licorne.ConfigError](err) {
		t.Fatalf("Run returned %v", err)
	}
}

// After the end of the context the server's answer is unknown, as after a loss.
func TestConfigurationInTime(t *testing.T) {
	server := serve(t)
	r, first := configured(t, server)
	asked, may := make(chan struct{}), make(chan struct{})
	server.configure = func(*licornev1.UpdateConfigurationRequest) error {
		close(asked)
		<-may
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-asked
		cancel()
	}()
	if err := r.client.UpdateConfiguration(ctx, "new", nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("UpdateConfiguration returned %v", err)
	}
	close(may)
	first.cut()
	expectRegistration(t, server, "new", "2")
}

// If the next registration is refused because of a configuration that could not be sent, the client registers
// with the last accepted one, and reports the refusal.
func TestRefusedConfigurationFallsBack(t *testing.T) {
	server := serve(t)
	r, first := configured(t, server)
	server.answering(nil)
	r.must(r.client.UpdateConfiguration(context.Background(), "good", map[string]string{"b": "3"}))
	server.answering(refusal(codes.Unavailable, "later", ""))
	_ = r.client.UpdateConfiguration(context.Background(), "odd", map[string]string{"b": "4"})
	first.cut()
	expectRegistration(t, server, "odd", "4").end(badConfig("line 1: odd"))
	r.expect("refused: licorne: configuration refused: line 1: odd")
	second := expectRegistration(t, server, "good", "3")
	second.stamp = [2]uint64{2, 1}
	second.register()
	server.answering(nil)
	r.must(r.client.UpdateConfiguration(context.Background(), "newer", nil))
	second.cut()
	expectRegistration(t, server, "newer", "3")
}

// A configuration that the server refuses when it is sent again is not registered.
func TestLateRefusal(t *testing.T) {
	server := serve(t)
	r, first := configured(t, server)
	server.answering(refusal(codes.Unavailable, "later", ""))
	_ = r.client.UpdateConfiguration(context.Background(), "odd", nil)
	server.answering(badConfig("line 1: odd"))
	_ = r.client.UpdateConfiguration(context.Background(), "odd", nil)
	first.cut()
	expectRegistration(t, server, "old", "2")
}

// An accepted configuration replaces one that could not be sent.
func TestNewerConfiguration(t *testing.T) {
	server := serve(t)
	r, first := configured(t, server)
	server.answering(refusal(codes.Unavailable, "later", ""))
	_ = r.client.UpdateConfiguration(context.Background(), "odd", nil)
	server.answering(nil)
	r.must(r.client.UpdateConfiguration(context.Background(), "new", nil))
	first.cut()
	for range 2 {
		expectRegistration(t, server, "new", "2").end(badConfig("no more"))
	}
	if err := r.awaitEnd(); !isA[*licorne.ConfigError](err) {
		t.Fatalf("Run returned %v", err)
	}
}

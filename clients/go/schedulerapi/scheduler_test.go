package schedulerapi

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// Only one goroutine at a time calls the shim.
func TestCallbacksDoNotOverlap(t *testing.T) {
	s := setStage(t, often)
	s.refusing("n1")
	s.ask(allocation("k0", ""))
	s.check("k0", "n1")
	var all sync.WaitGroup
	for _, say := range []func(){
		func() { s.check("k1", "n1") },
		func() { s.serverReleases("k2", stoppedByRM) },
		func() { s.handlers.Nodes(&si.NodeResponse{Accepted: []*si.AcceptedNode{{NodeID: "n1"}}}) },
		func() { s.handlers.Events(1, []*si.EventRecord{{}}) },
	} {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 100 {
				say()
			}
		}()
	}
	all.Wait()
	s.shim.mu.Lock()
	defer s.shim.mu.Unlock()
	if s.shim.overlaps != 0 {
		t.Fatalf("%d calls overlapped", s.shim.overlaps)
	}
}

// All other messages of the server reach the shim unchanged.
func TestOtherCallbacks(t *testing.T) {
	s := setStage(t)
	s.shim.dumps = "{}"
	s.handlers.Nodes(&si.NodeResponse{Accepted: []*si.AcceptedNode{{NodeID: "n1"}}})
	s.handlers.Applications(&si.ApplicationResponse{Accepted: []*si.AcceptedApplication{{ApplicationID: "a"}}})
	s.handlers.Events(7, []*si.EventRecord{{}, {}})
	failed := si.UpdateContainerSchedulingStateRequest_FAILED
	s.handlers.ContainerStates([]*si.UpdateContainerSchedulingStateRequest{{AllocationKey: "k1", State: failed}})
	s.handlers.Allocations(&si.AllocationResponse{})
	s.sees(s.shim.take, "accepted n1", "accepted a", "2 events", "k1 is FAILED")
	if dump, err := s.handlers.StateDump(); dump != "{}" || err != nil {
		t.Fatalf("the state is %q, %v", dump, err)
	}
}

// A request that cannot be sent is refused, and changes nothing.
func TestRefusedRequestLeavesNoTrace(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.refusing("n1")
	s.check("k1", "n1")
	s.server.take()
	s.server.refuse = errors.New("allocations[1].allocationKey is too long")
	request := releaseOf("k1", stoppedByRM)
	request.Allocations = []*si.Allocation{allocation("k2", ""), allocation("k1", "n2")}
	removal := &si.RemoveApplicationRequest{ApplicationID: "app"}
	decommission := &si.NodeInfo{NodeID: "n1", Action: si.NodeInfo_DECOMISSION}
	for _, err := range []error{
		s.rm.updateAllocation(request),
		s.rm.updateApplication(&si.ApplicationRequest{Remove: []*si.RemoveApplicationRequest{removal}}),
		s.rm.updateNode(&si.NodeRequest{Nodes: []*si.NodeInfo{decommission}}),
	} {
		if !errors.Is(err, s.server.refuse) {
			t.Fatalf("the error is %v", err)
		}
	}
	s.sees(s.server.take)
	if where, _ := s.rm.books.find("k1"); where != pending {
		t.Fatalf("k1 is %v", where)
	}
	if where, _ := s.rm.books.find("k2"); where != unknown {
		t.Fatal("k2 is known")
	}
	if exists, _ := s.rm.books.node("n1"); !exists || s.rm.refusals.nodes["n1"] == nil {
		t.Fatal("n1 is gone")
	}
}

// A refused configuration is an error. A configuration that cannot be sent is sent later.
func TestConfigurations(t *testing.T) {
	s := setStage(t)
	refusal := &licorne.ConfigError{Problems: []string{"no root queue"}}
	s.server.configOf = func(queues string) error {
		switch queues {
		case "bad":
			return refusal
		case "away":
			return &licorne.LostError{Text: "nobody there"}
		}
		return nil
	}
	update := func(queues string) error {
		return s.rm.configuration.update(&si.UpdateConfigurationRequest{Config: queues})
	}
	if err := update("bad"); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "no root queue") {
		t.Fatalf("the error is %v", err)
	}
	s.rm.configuration.repeat() // there is nothing to repeat
	if err := update("away"); err != nil {
		t.Fatalf("the error is %v", err)
	}
	s.server.mu.Lock()
	s.server.configOf = nil
	s.server.mu.Unlock()
	s.handlers.Session(licorne.SessionChange{State: licorne.SessionReplayed})
	configs := func() []string {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		return append([]string(nil), s.server.configs...)
	}
	for end := time.Now().Add(patient); len(configs()) < 3 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s.sees(configs, "bad", "away", "away")
}

// Invalid options and requests are errors that name the field.
func TestWrongUse(t *testing.T) {
	if _, err := New(Options{Target: "nowhere"}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Fatalf("a target without a port: %v", err)
	}
	if _, err := New(Options{Target: "h:1", RecheckInterval: -1}); err == nil || !strings.Contains(err.Error(), "RecheckInterval") {
		t.Fatalf("a negative interval: %v", err)
	}
	s, err := New(Options{Target: "127.0.0.1:1", Logger: unread})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm"}, nil); err == nil {
		t.Fatal("no callback, and no error")
	}
	if err := s.UpdateNode(&si.NodeRequest{RmID: "rm"}); err == nil || !strings.Contains(err.Error(), `"rm"`) {
		t.Fatalf("an RM that is not registered: %v", err)
	}
	s.Stop()
	s.Stop()
	if err := s.UpdateNode(&si.NodeRequest{RmID: "rm"}); !errors.Is(err, ErrStopped) {
		t.Fatalf("after Stop: %v", err)
	}
}

// A registration waits for a server that is not running. Stop ends the wait.
func TestStopEndsTheWait(t *testing.T) {
	s, err := New(Options{Target: "127.0.0.1:1", Logger: unread})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		_, err := s.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm", Version: "1"}, &fakeShim{})
		result <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := s.find("rm"); err == nil {
			break
		}
	}
	s.Stop()
	wantStopped(t, result)
}

// Stop also ends a registration that has not started.
func TestStopBeforeTheStart(t *testing.T) {
	s, err := New(Options{Target: "127.0.0.1:1", Logger: unread})
	if err != nil {
		t.Fatal(err)
	}
	request := &si.RegisterResourceManagerRequest{RmID: "rm", Version: "1"}
	next, err := newRM(s.options, request, &fakeShim{})
	if err != nil {
		t.Fatal(err)
	}
	s.rms["rm"] = next
	s.Stop()
	next.start()
	result := make(chan error, 1)
	go func() { result <- next.ready() }()
	wantStopped(t, result)
}

func wantStopped(t *testing.T, result <-chan error) {
	t.Helper()
	select {
	case err := <-result:
		if !errors.Is(err, ErrStopped) {
			t.Fatalf("the registration returned %v", err)
		}
	case <-time.After(patient):
		t.Fatal("the registration did not return")
	}
}

// The end of a session is reported, but not that of a failed registration.
func TestEnded(t *testing.T) {
	fenced := &licorne.FencedError{Text: "a newer one"}
	for _, one := range []struct {
		registers error
		want      int
	}{{nil, 1}, {fenced, 0}} {
		told := make(chan error, 2)
		options := Options{Ended: func(err error) { told <- err }, Logger: unread}.withDefaults()
		r := newDetached(options, "rm", &fakeShim{})
		r.attach(&ending{script: &script{}, ready: one.registers, end: fenced})
		r.start()
		if err := r.ready(); !errors.Is(err, one.registers) {
			t.Fatalf("the registration returned %v", err)
		}
		r.done.Wait()
		if one.want == 1 {
			select {
			case <-told:
			case <-time.After(patient):
				t.Fatal("it was not told")
			}
		}
		r.stop()
		if len(told) != 0 {
			t.Fatalf("it was told %d times too often", len(told))
		}
	}
}

// Ended may call Stop.
func TestEndedMayStop(t *testing.T) {
	var r *rm
	stopped := make(chan struct{})
	options := Options{Logger: unread, Ended: func(error) {
		r.stop()
		close(stopped)
	}}
	r = newDetached(options.withDefaults(), "rm", &fakeShim{})
	r.attach(&ending{script: &script{}, end: &licorne.FencedError{Text: "a newer one"}})
	r.start()
	if err := r.ready(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped:
	case <-time.After(patient):
		t.Fatal("stop does not return")
	}
}

// ending is a session that ends by itself.
type ending struct {
	*script
	ready, end error
}

func (e *ending) Ready(context.Context) error { return e.ready }
func (e *ending) Run(context.Context) error   { return e.end }

package licorne_test

import (
	"fmt"
	"testing"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// A hello has the identity of the RM, its callbacks, and its registration.
func TestHello(t *testing.T) {
	server := serve(t)
	run(t, server.address, func(config *licorne.Config, handlers *licorne.Handlers) {
		config.Instance, config.Queues, config.Version = 7, "partitions: []", "1.2"
		config.ExtraConfig = map[string]string{"k": "v"}
		config.Predicates = &licorne.PredicateOptions{FailOpen: true, ClassBy: licorne.ByTag}
		handlers.Check = func(*licornev1.PredicateCheck) map[string]string { return nil }
		handlers.Events = func(uint64, []*si.EventRecord) {}
	})
	hello := server.accept().hello
	registration := hello.GetRegistration()
	if hello.GetRmId() != "rm1" || hello.GetInstance() != 7 || hello.GetProtocol() != 1 || hello.GetResumeToken() != "" {
		t.Fatalf("hello: %v", hello)
	}
	if registration.GetConfig() != "partitions: []" || registration.GetVersion() != "1.2" || registration.GetExtraConfig()["k"] != "v" {
		t.Fatalf("registration: %v", registration)
	}
	predicates := hello.GetCallbacks().GetPredicates()
	if predicates.GetDeadlineMilliseconds() != 2000 || predicates.GetFailMode() != licornev1.FailMode_FAIL_OPEN ||
		predicates.GetClassBy() != licorne.ByTag {
		t.Fatalf("predicates: %v", predicates)
	}
	if callbacks := hello.GetCallbacks(); !callbacks.GetEvents() || callbacks.GetContainerStates() || callbacks.GetStateDump() {
		t.Fatalf("callbacks: %v", callbacks)
	}
}

// Items from before the first session are in its replay, and later items follow it.
func TestReplayThenUpdates(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.submit(application("a1"))
	r.asks(ask("k1"))
	r.start()
	stream, replayed := server.register()
	expectSaid(t, replayed, "CREATE n1", "submit a1", "ask k1", "end 1 1 1")
	r.ready()
	r.asks(ask("k2"))
	expectSaid(t, []*licornev1.UpdateRequest{stream.next()}, "ask k2")
}

// Answers reach the handlers in the order of the stream.
func TestAnswers(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream, _ := server.register()
	r.ready()
	r.nodes(node("n1", si.NodeInfo_CREATE), node("n2", si.NodeInfo_CREATE))
	stream.next()
	stream.nodes(&si.NodeResponse{
		Accepted: []*si.AcceptedNode{{NodeID: "n1"}}, Rejected: []*si.RejectedNode{{NodeID: "n2", Reason: "too odd"}},
	})
	r.submit(application("a1"))
	stream.next()
	stream.applications(acceptedApplications("a1"))
	r.asks(ask("k1"), ask("k2"))
	stream.next()
	stream.allocations(&si.AllocationResponse{
		New:                 []*si.Allocation{allocation("k1", "n1")},
		RejectedAllocations: []*si.RejectedAllocation{{AllocationKey: "k2", Reason: "too large"}},
	})
	r.expect("node n1 accepted", "node n2 rejected: too odd", "application a1 accepted", "k1 on n1", "k2 rejected: too large")
	stream.awaitAcknowledged()
}

// After a broken stream the session is resumed: unprocessed requests are sent again with their numbers, items
// queued meanwhile follow, and repeated responses are dropped.
func TestResume(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register()
	r.ready()
	r.asks(ask("k1"))
	one := first.next()
	r.asks(ask("k2"))
	two := first.next()
	first.processed = one.GetNumber()
	first.allocations(&si.AllocationResponse{RejectedAllocations: []*si.RejectedAllocation{{AllocationKey: "k1", Reason: "no"}}})
	r.expect("k1 rejected: no")
	first.awaitAcknowledged()
	first.cut()
	second := server.resume(first, one.GetNumber())
	if second.hello.GetAcknowledged() != first.sent {
		t.Fatalf("the hello acknowledges %d, not %d", second.hello.GetAcknowledged(), first.sent)
	}
	again := second.next()
	if again.GetNumber() != two.GetNumber() {
		t.Fatalf("request %d came again, not %d", again.GetNumber(), two.GetNumber())
	}
	expectSaid(t, []*licornev1.UpdateRequest{again}, "ask k2")
	second.sent--
	second.allocations(&si.AllocationResponse{RejectedAllocations: []*si.RejectedAllocation{{AllocationKey: "k1", Reason: "no"}}})
	second.allocations(&si.AllocationResponse{RejectedAllocations: []*si.RejectedAllocation{{AllocationKey: "k2", Reason: "no"}}})
	r.expect("k2 rejected: no")
	if stats := r.client.Stats(); stats.Resumed != 1 || stats.Replayed != 1 {
		t.Fatalf("stats: %+v", stats)
	}
}

// A stream may break after any request: all requests arrive once, in order, over any number of streams.
func TestResumeAnywhere(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream, _ := server.register()
	r.ready()
	base := stream.processed
	for round := range 10 {
		for i := range 5 {
			r.asks(ask(fmt.Sprintf("k%d-%d", round, i)))
		}
		// In this round the server reads one message, which it processes or not.
		if read := stream.next().GetNumber(); round%2 == 0 {
			base = read
		}
		stream.cut()
		stream = server.resume(stream, base)
	}
	r.asks(ask("last"))
	seen := base
	for {
		request := stream.next()
		if request.GetNumber() != seen+1 {
			t.Fatalf("request %d follows %d", request.GetNumber(), seen)
		}
		seen = request.GetNumber()
		if lines := said(request); lines[len(lines)-1] == "ask last" {
			return
		}
	}
}

// A gap in the numbers of the responses makes the client connect without a token and replay.
func TestGap(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register()
	r.ready()
	r.asks(ask("k1"))
	first.next()
	first.sent++
	first.allocations(fresh(allocation("k1", "n1")))
	second, replayed := server.register(1, 2)
	if second.hello.GetResumeToken() != "" {
		t.Fatal("the hello asks to resume")
	}
	expectSaid(t, replayed, "ask k1", "end 0 0 1")
	r.expect()
}

// An incomplete replay is repeated in a new session.
func TestIncompleteReplay(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.start()
	first := server.accept()
	first.welcome(&licornev1.Welcome{ResumeToken: "token"}, 0)
	first.takeReplay()
	first.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_ReplayResult{
		ReplayResult: &licornev1.ReplayResult{Reason: "0 nodes of 1"},
	}})
	second, replayed := server.register(1, 2)
	if second.hello.GetResumeToken() != "" {
		t.Fatal("the hello asks to resume")
	}
	expectSaid(t, replayed, "CREATE n1", "end 1 0 0")
	r.ready()
}

// If a stream breaks within a replay, the session is not resumed: the replay begins again.
func TestBrokenReplay(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	for i := range 3000 {
		large := node(fmt.Sprintf("n%d", i), si.NodeInfo_CREATE)
		large.Attributes = map[string]string{"filler": fmt.Sprintf("%01000d", i)}
		r.nodes(large)
	}
	r.start()
	first := server.accept()
	first.welcome(&licornev1.Welcome{ResumeToken: "token", MaxItems: 1000}, 0)
	first.next()
	first.next()
	first.cut()
	second, replayed := server.register(1, 2)
	if second.hello.GetResumeToken() != "" {
		t.Fatal("the hello asks to resume")
	}
	if lines := said(replayed...); len(lines) != 3001 || lines[3000] != "end 3000 0 0" {
		t.Fatalf("%d lines were replayed", len(lines))
	}
}

// A response of an older session is dropped.
func TestOldSession(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream, _ := server.register(2, 5)
	r.ready()
	r.nodes(node("n1", si.NodeInfo_CREATE))
	stream.next()
	stream.stamp = [2]uint64{2, 4}
	stream.nodes(&si.NodeResponse{Rejected: []*si.RejectedNode{{NodeID: "n1", Reason: "old"}}})
	stream.stamp = [2]uint64{2, 5}
	stream.sent--
	stream.nodes(acceptedNodes("n1"))
	r.expect("node n1 accepted")
}

// A welcome of an older epoch is refused, and the client tries again. Its hello has the highest epoch.
func TestOldWelcome(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register(2, 1)
	if first.hello.GetEpoch() != 0 {
		t.Fatalf("the first hello names epoch %d", first.hello.GetEpoch())
	}
	r.ready()
	first.cut()
	stale := server.accept()
	if stale.hello.GetEpoch() != 2 {
		t.Fatalf("the hello names epoch %d", stale.hello.GetEpoch())
	}
	stale.stamp = [2]uint64{1, 9}
	stale.welcome(&licornev1.Welcome{ResumeToken: "other"}, 0)
	_, replayed := server.register(2, 2)
	expectSaid(t, replayed, "end 0 0 0")
}

// Several addresses are tried in turn.
func TestTargetsInTurn(t *testing.T) {
	gone, there := serve(t), serve(t)
	gone.grpc.Stop()
	r := run(t, gone.address+", "+there.address)
	there.register()
	r.ready()
}

package licorne_test

import (
	"testing"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// A replay has nodes, applications, allocations and asks, in this order, in their present state.
func TestReplayContent(t *testing.T) {
	server := serve(t)
	r := run(t, server.address, func(_ *licorne.Config, handlers *licorne.Handlers) { handlers.Session = nil })
	first, _ := server.register()
	r.ready()
	r.asks(ask("early"))
	r.submit(application("a1"), application("a2"), application("a3"))
	r.nodes(node("n1", si.NodeInfo_CREATE), node("n2", si.NodeInfo_CREATE_DRAIN), node("n3", si.NodeInfo_CREATE))
	r.nodes(node("n2", si.NodeInfo_DRAIN_TO_SCHEDULABLE), node("n1", si.NodeInfo_DRAIN_NODE), node("n3", si.NodeInfo_DECOMISSION))
	r.nodes(&si.NodeInfo{NodeID: "n2", Action: si.NodeInfo_UPDATE, SchedulableResource: amounts(9)})
	r.asks(ask("k1"), ask("k2"), allocation("k3", "n2"), ask("k4"))
	for range 3 {
		first.next()
	}
	first.nodes(acceptedNodes("n1", "n2", "n3"))
	first.applications(&si.ApplicationResponse{
		Accepted: acceptedApplications("a1", "a2").GetAccepted(),
		Rejected: []*si.RejectedApplication{{ApplicationID: "a3", Reason: "no"}},
		Updated:  []*si.UpdatedApplication{{ApplicationID: "a2", State: "Completed"}},
	})
	first.allocations(fresh(allocation("k3", "n2"), allocation("k1", "n2")))
	first.allocations(&si.AllocationResponse{RejectedAllocations: []*si.RejectedAllocation{{AllocationKey: "k2", Reason: "no"}}})
	r.expect("node n1 accepted", "node n2 accepted", "node n3 accepted",
		"application a1 accepted", "application a2 accepted", "application a3 rejected: no", "application a2 is Completed",
		"k3 on n2", "k1 on n2", "k2 rejected: no")
	first.cut()
	_, replayed := server.register(2, 1)
	expectSaid(t, replayed, "CREATE_DRAIN n1", "CREATE n2", "submit a1",
		"ask k1 n2", "ask k3 n2", "ask early", "ask k4", "end 2 1 4")
	for _, request := range replayed {
		checkReplayed(t, request)
	}
}

// checkReplayed fails unless n2 has its new capacity, applications are forced, and asks have their age.
func checkReplayed(t *testing.T, request *licornev1.UpdateRequest) {
	t.Helper()
	for _, info := range request.GetNodes().GetNodes() {
		if vcore := info.GetSchedulableResource().GetResources()["vcore"].GetValue(); info.GetNodeID() == "n2" && vcore != 9 {
			t.Fatalf("n2 has %d vcore", vcore)
		}
	}
	for _, item := range request.GetApplications().GetNew() {
		if item.GetTags()["application.create.force"] != "true" {
			t.Fatalf("the application is not forced: %v", item)
		}
	}
	for _, item := range request.GetAllocations().GetAllocations() {
		if item.GetAllocationTags()["creationTime"] == "" {
			t.Fatalf("no creation time: %v", item)
		}
	}
}

// The handlers see only differences in a replay.
func TestReplayIsInvisible(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register()
	r.ready()
	r.nodes(node("n1", si.NodeInfo_CREATE), node("n2", si.NodeInfo_CREATE))
	r.submit(application("a1"), application("a2"))
	r.asks(ask("k1"), ask("k2"), ask("k3"))
	for range 3 {
		first.next()
	}
	first.nodes(acceptedNodes("n1", "n2"))
	first.applications(acceptedApplications("a1", "a2"))
	first.applications(states("Running", "Accepted"))
	first.allocations(fresh(allocation("k1", "n1"), allocation("k3", "n1")))
	r.expect("node n1 accepted", "node n2 accepted", "application a1 accepted", "application a2 accepted",
		"application a1 is Running", "application a2 is Accepted", "k1 on n1", "k3 on n1")
	r.release("k3")
	first.next()
	first.cut()
	second := server.accept()
	second.stamp = [2]uint64{2, 1}
	second.welcome(&licornev1.Welcome{ResumeToken: "token", HeartbeatSeconds: 30}, 0)
	second.takeReplay()
	// The release of k3 was under way, so it is complete.
	r.expect("k3 released: STOPPED_BY_RM")
	second.nodes(&si.NodeResponse{
		Accepted: acceptedNodes("n1").GetAccepted(), Rejected: []*si.RejectedNode{{NodeID: "n2", Reason: "odd"}},
	})
	second.applications(acceptedApplications("a1", "a2"))
	second.applications(states("Running", "New"))
	second.allocations(fresh(allocation("k1", "n1"), allocation("k2", "n1")))
	second.replayComplete()
	r.expect("node n2 rejected: odd", "k2 on n1", "application a2 is New")
	second.awaitAcknowledged()
	if stats := r.client.Stats(); stats.Nodes != 1 || stats.Asks != 0 || stats.Allocations != 2 {
		t.Fatalf("stats: %+v", stats)
	}
}

// states returns a response with the states of the applications a1 and a2.
func states(a1, a2 string) *si.ApplicationResponse {
	return &si.ApplicationResponse{Updated: []*si.UpdatedApplication{
		{ApplicationID: "a1", State: a1}, {ApplicationID: "a2", State: a2},
	}}
}

// The rejection of a repetition is reported, and the item is in the next replay.
func TestRejectedRepetition(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register()
	r.ready()
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.submit(application("a1"))
	first.next()
	first.nodes(acceptedNodes("n1"))
	first.next()
	first.applications(acceptedApplications("a1"))
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.submit(application("a1"))
	first.next()
	first.nodes(&si.NodeResponse{Rejected: []*si.RejectedNode{{NodeID: "n1", Reason: "there"}}})
	first.next()
	first.applications(&si.ApplicationResponse{Rejected: []*si.RejectedApplication{{ApplicationID: "a1", Reason: "there"}}})
	r.expect("node n1 accepted", "application a1 accepted", "node n1 rejected: there", "application a1 rejected: there")
	first.cut()
	_, replayed := server.register(2, 1)
	expectSaid(t, replayed, "CREATE n1", "submit a1", "end 1 1 0")
}

// A resized ask is replayed in its new size, unless the server refused the change.
func TestResize(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register()
	r.ready()
	r.asks(ask("k1"), ask("k2"))
	for _, key := range []string{"k1", "k2"} {
		larger := ask(key)
		larger.ResourcePerAlloc = amounts(700)
		r.asks(larger)
	}
	first.next()
	first.allocations(&si.AllocationResponse{RejectedAllocations: []*si.RejectedAllocation{{AllocationKey: "k2", Reason: "too large"}}})
	r.expect("k2 rejected: too large")
	first.cut()
	_, replayed := server.register(2, 1)
	expectSaid(t, replayed, "ask k1", "ask k2", "end 0 0 2")
	for i, wanted := range []int64{700, 100} {
		if vcore := replayed[0].GetAllocations().GetAllocations()[i].GetResourcePerAlloc().GetResources()["vcore"].GetValue(); vcore != wanted {
			t.Fatalf("ask %d has %d vcore, not %d", i+1, vcore, wanted)
		}
	}
}

// An allocation for an ask that was released meanwhile is not reported, and a released allocation is not
// replayed.
func TestReleases(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register()
	r.ready()
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.asks(ask("k1"), ask("k2"), ask("k3"))
	first.next()
	first.next()
	r.release("k1")
	first.next()
	first.allocations(fresh(allocation("k1", "n1"), allocation("k2", "n1"), allocation("k3", "n1")))
	first.allocations(&si.AllocationResponse{Released: []*si.AllocationRelease{
		{AllocationKey: "k2", TerminationType: si.TerminationType_STOPPED_BY_RM},
		{AllocationKey: "k3", TerminationType: si.TerminationType_PREEMPTED_BY_SCHEDULER},
	}})
	r.expect("k2 on n1", "k3 on n1", "k2 released: STOPPED_BY_RM", "k3 released: PREEMPTED_BY_SCHEDULER")
	first.cut()
	_, replayed := server.register(2, 1)
	// The end of k3 was requested, but not confirmed.
	expectSaid(t, replayed, "CREATE n1", "ask k3 n1", "end 1 0 1")
}

// An allocation moves by its release and its report on another node, which arrive in that order.
func TestMove(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register()
	r.ready()
	r.nodes(node("n1", si.NodeInfo_CREATE), node("n2", si.NodeInfo_CREATE))
	r.asks(allocation("k1", "n1"))
	first.next()
	first.next()
	first.allocations(fresh(allocation("k1", "n1")))
	r.expect("k1 on n1")
	r.release("k1")
	r.asks(allocation("k1", "n2"))
	expectSaid(t, []*licornev1.UpdateRequest{first.next(), first.next()}, "release k1", "ask k1 n2")
	first.allocations(&si.AllocationResponse{Released: []*si.AllocationRelease{{AllocationKey: "k1", TerminationType: si.TerminationType_STOPPED_BY_RM}}})
	first.allocations(fresh(allocation("k1", "n2")))
	r.expect("k1 released: STOPPED_BY_RM", "k1 on n2")
	first.cut()
	_, replayed := server.register(2, 1)
	expectSaid(t, replayed, "CREATE n1", "CREATE n2", "ask k1 n2", "end 2 0 1")
}

// An assumed ask is replayed as an allocation while its node exists, and its allocation is reported.
func TestAssume(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE), node("n2", si.NodeInfo_CREATE))
	r.submit(application("a1"))
	r.asks(ask("k1"), ask("k2"))
	if !r.client.Assume("k1", "n1") || !r.client.Assume("k2", "n2") || r.client.Assume("k3", "n1") {
		t.Fatal("Assume takes pending asks, and nothing else")
	}
	r.nodes(node("n2", si.NodeInfo_DECOMISSION))
	r.start()
	stream, replayed := server.register()
	expectSaid(t, replayed, "CREATE n1", "submit a1", "ask k1 n1", "ask k2", "end 1 1 2")
	stream.allocations(fresh(allocation("k1", "n1")))
	r.expect("k1 on n1")
	if r.client.Assume("k1", "n2") {
		t.Fatal("an allocation was assumed elsewhere")
	}
}

// An assumed ask that the RM makes pending again is also pending in a replay.
func TestAssumedAskGivenBack(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.asks(ask("k1"), ask("k2"))
	r.client.Assume("k1", "n1")
	r.client.Assume("k2", "n1")
	r.terminate("k1", 5)
	r.start()
	_, replayed := server.register()
	expectSaid(t, replayed, "CREATE n1", "ask k2 n1", "ask k1", "end 1 0 2")
}

// With one application id in two partitions, a rejection is not for a running application.
func TestNamesakes(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE))
	other := application("a1")
	other.PartitionName = "gpu"
	r.submit(application("a1"), other)
	running := allocation("k1", "n1")
	running.PartitionName = "[rm1]GPU"
	r.asks(running)
	r.start()
	first, _ := server.register()
	r.ready()
	first.applications(&si.ApplicationResponse{
		Accepted: acceptedApplications("a1").GetAccepted(),
		Rejected: []*si.RejectedApplication{{ApplicationID: "a1", Reason: "no"}},
	})
	r.expect("application a1 accepted", "application a1 rejected: no")
	first.cut()
	_, replayed := server.register(2, 1)
	expectSaid(t, replayed, "CREATE n1", "submit a1", "ask k1 n1", "end 1 1 1")
	if partition := replayed[1].GetApplications().GetNew()[0].GetPartitionName(); partition != "gpu" {
		t.Fatalf("the application of partition %q stayed", partition)
	}
}

// A foreign allocation is replayed, and its release needs no application.
func TestForeign(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE))
	for _, key := range []string{"f1", "f2"} {
		r.asks(&si.Allocation{
			AllocationKey: key, NodeID: "n1", ResourcePerAlloc: amounts(5), AllocationTags: map[string]string{"foreign": "default"},
		})
	}
	r.must(r.client.UpdateAllocations(&si.AllocationRequest{Releases: &si.AllocationReleasesRequest{
		AllocationsToRelease: []*si.AllocationRelease{{AllocationKey: "f1"}},
	}}))
	r.start()
	_, replayed := server.register()
	expectSaid(t, replayed, "CREATE n1", "ask f2 n1", "end 1 0 1")
}

// The removal of an application removes its asks, and so does a release without a key.
func TestRemovals(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	r.submit(application("a1"), application("a2"))
	second := ask("k3")
	second.ApplicationID = "a2"
	r.asks(ask("k1"), ask("k2"), second)
	r.release("")
	r.remove("a2")
	r.start()
	_, replayed := server.register()
	expectSaid(t, replayed, "submit a1", "end 0 1 0")
}

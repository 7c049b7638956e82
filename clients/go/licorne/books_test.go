package licorne_test

import (
	"testing"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// told returns an RM with n1, a1, the allocations k1 to k4 on n1, and the pending asks k5 to k8.
func told(t *testing.T) (*scripted, *rm, *scriptedStream) {
	t.Helper()
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE), node("n2", si.NodeInfo_CREATE))
	r.submit(application("a1"))
	r.asks(ask("k1"), ask("k2"), ask("k3"), ask("k4"), ask("k5"), ask("k6"), ask("k7"), ask("k8"))
	r.start()
	stream, _ := server.register()
	stream.allocations(fresh(allocation("k1", "n1"), allocation("k2", "n1"), allocation("k3", "n1"), allocation("k4", "n1")))
	r.expect("k1 on n1", "k2 on n1", "k3 on n1", "k4 on n1")
	return server, r, stream
}

func (r *rm) terminate(key string, termination si.TerminationType) {
	r.t.Helper()
	r.must(r.client.UpdateAllocations(&si.AllocationRequest{Releases: &si.AllocationReleasesRequest{
		AllocationsToRelease: []*si.AllocationRelease{{AllocationKey: key, ApplicationID: "a1", TerminationType: termination}},
	}}))
}

// replayedAsks restarts the server, and checks the replayed asks and allocations.
func replayedAsks(t *testing.T, server *scripted, stream *scriptedStream, wanted ...string) *scriptedStream {
	t.Helper()
	stream.cut()
	again, replayed := server.register(stream.stamp[0]+1, 1)
	var asks []*licornev1.UpdateRequest
	for _, request := range replayed {
		if request.GetAllocations() != nil {
			asks = append(asks, request)
		}
	}
	expectSaid(t, asks, wanted...)
	return again
}

// The cache agrees with the server after each termination: a timeout ends only allocations, the number 5
// makes an allocation pending again, and confirmations have no answer.
func TestTerminations(t *testing.T) {
	server, r, stream := told(t)
	for key, termination := range map[string]si.TerminationType{
		"k1": si.TerminationType_TIMEOUT, "k2": si.TerminationType_PREEMPTED_BY_SCHEDULER,
		"k3": si.TerminationType_PLACEHOLDER_REPLACED, "k4": 5,
		"k5": si.TerminationType_TIMEOUT, "k6": si.TerminationType_STOPPED_BY_RM, "k7": 5,
	} {
		r.terminate(key, termination)
	}
	r.terminate("unknown", si.TerminationType_STOPPED_BY_RM)
	other := ask("k8")
	other.ApplicationID = "a2"
	r.must(r.client.UpdateAllocations(&si.AllocationRequest{Releases: &si.AllocationReleasesRequest{
		AllocationsToRelease: []*si.AllocationRelease{{AllocationKey: "k8", ApplicationID: "a2"}},
	}}))
	again := replayedAsks(t, server, stream, "ask k4", "ask k5", "ask k7", "ask k8")
	// No release was unconfirmed, so the next event is the allocation of the ask that became pending.
	again.allocations(fresh(allocation("k4", "n1")))
	r.expect("k4 on n1")
}

// The RM itself can place a pending ask. If the server refuses the placement, the ask is pending again.
func TestPlacedByTheRM(t *testing.T) {
	server, r, stream := told(t)
	r.asks(allocation("k5", "n2"), allocation("k6", "n2"), allocation("k1", "n2"))
	stream.next()
	stream.allocations(&si.AllocationResponse{
		New:                 []*si.Allocation{allocation("k5", "n2")},
		RejectedAllocations: []*si.RejectedAllocation{{AllocationKey: "k6", Reason: "no room"}},
	})
	r.expect("k5 on n2", "k6 rejected: no room")
	// An allocation does not move if it is reported on another node.
	replayedAsks(t, server, stream, "ask k1 n1", "ask k2 n1", "ask k3 n1", "ask k4 n1", "ask k5 n2", "ask k6", "ask k7", "ask k8")
}

// The removal of a node ends its allocations. Their releases are reported once, by the server or by a replay.
func TestRemovedNode(t *testing.T) {
	server, r, stream := told(t)
	r.nodes(node("n1", si.NodeInfo_DECOMISSION))
	stream.next()
	stream.allocations(&si.AllocationResponse{Released: []*si.AllocationRelease{
		{AllocationKey: "k1", TerminationType: si.TerminationType_STOPPED_BY_RM},
		{AllocationKey: "k2", TerminationType: si.TerminationType_STOPPED_BY_RM},
		{AllocationKey: "k3", TerminationType: si.TerminationType_STOPPED_BY_RM},
	}})
	r.expect("k1 released: STOPPED_BY_RM", "k2 released: STOPPED_BY_RM", "k3 released: STOPPED_BY_RM")
	stream.allocations(&si.AllocationResponse{Released: []*si.AllocationRelease{
		{AllocationKey: "k4", TerminationType: si.TerminationType_STOPPED_BY_RM},
	}})
	r.expect("k4 released: STOPPED_BY_RM")
	// Allocations that crossed the removal are reported, and end with the node.
	stream.allocations(fresh(allocation("k5", "n1"), allocation("k6", "n1")))
	r.expect("k5 on n1", "k6 on n1")
	stream.allocations(&si.AllocationResponse{Released: []*si.AllocationRelease{
		{AllocationKey: "k5", TerminationType: si.TerminationType_STOPPED_BY_RM},
	}})
	r.expect("k5 released: STOPPED_BY_RM")
	replayedAsks(t, server, stream, "ask k7", "ask k8")
	r.expect("k6 released: STOPPED_BY_RM")
}

// A foreign allocation can change its size and its node.
func TestForeignMoves(t *testing.T) {
	foreign := func(node string, vcore int64) *si.Allocation {
		return &si.Allocation{
			AllocationKey: "f1", NodeID: node, ResourcePerAlloc: amounts(vcore), AllocationTags: map[string]string{"Foreign": "static"},
		}
	}
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE), node("n2", si.NodeInfo_CREATE))
	r.asks(foreign("n1", 5))
	r.asks(foreign("n2", 6))
	r.start()
	stream, replayed := server.register()
	expectSaid(t, replayed, "CREATE n1", "CREATE n2", "ask f1 n2", "end 2 0 1")
	if vcore := replayed[1].GetAllocations().GetAllocations()[0].GetResourcePerAlloc().GetResources()["vcore"].GetValue(); vcore != 6 {
		t.Fatalf("it has %d vcore", vcore)
	}
	r.nodes(node("n2", si.NodeInfo_DECOMISSION))
	replayedAsks(t, server, stream)
}

// The end of an application removes it and its asks. Namesakes are retained: it is unknown which has ended.
func TestEndedApplications(t *testing.T) {
	server, r, stream := told(t)
	twin := application("a2")
	twin.PartitionName = "gpu"
	r.submit(application("a2"), twin)
	stream.next()
	stream.applications(acceptedApplications("a1", "a2", "a2"))
	stream.applications(&si.ApplicationResponse{Updated: []*si.UpdatedApplication{
		{ApplicationID: "a1", State: "Failed"}, {ApplicationID: "a2", State: "Completed"},
	}})
	r.expect("application a1 accepted", "application a2 accepted", "application a2 accepted",
		"application a1 is Failed", "application a2 is Completed")
	stream.cut()
	_, replayed := server.register(2, 1)
	expectSaid(t, replayed, "CREATE n1", "CREATE n2", "submit a2", "submit a2", "end 2 2 0")
}

// If one response accepts one of two idle namesakes and rejects the other, both are retained.
func TestDoubtfulNamesakes(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	twin := application("a1")
	twin.PartitionName = "gpu"
	r.submit(application("a1"), twin)
	r.start()
	stream, _ := server.register()
	stream.applications(&si.ApplicationResponse{
		Accepted: acceptedApplications("a1").GetAccepted(),
		Rejected: []*si.RejectedApplication{{ApplicationID: "a1", Reason: "no"}},
	})
	r.expect("application a1 accepted", "application a1 rejected: no")
	stream.cut()
	_, replayed := server.register(2, 1)
	expectSaid(t, replayed, "submit a1", "submit a1", "end 0 2 0")
}

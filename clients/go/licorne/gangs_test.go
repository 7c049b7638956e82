package licorne_test

import (
	"testing"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

func placeholder(key string) *si.Allocation {
	item := ask(key)
	item.TaskGroupName, item.Placeholder = "workers", true
	return item
}

func member(key string) *si.Allocation {
	item := ask(key)
	item.TaskGroupName = "workers"
	return item
}

func onNode(item *si.Allocation, node string) *si.Allocation {
	item.NodeID = node
	return item
}

// released returns a response in which the server reports or requests releases.
func released(termination si.TerminationType, keys ...string) *si.AllocationResponse {
	response := &si.AllocationResponse{}
	for _, key := range keys {
		response.Released = append(response.Released, &si.AllocationRelease{
			ApplicationID: "a1", AllocationKey: key, TerminationType: termination,
		})
	}
	return response
}

// gang returns an RM with n1, and a1 with the placeholders p1 and p2 on n1, the pending placeholder p3, and
// the asks k1 and k2 of the same group.
func gang(t *testing.T) (*scripted, *rm, *scriptedStream) {
	t.Helper()
	server := serve(t)
	r := newRM(t, server.address)
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.submit(application("a1"))
	r.asks(placeholder("p1"), placeholder("p2"), placeholder("p3"), member("k1"), member("k2"))
	r.start()
	stream, _ := server.register()
	stream.allocations(fresh(onNode(placeholder("p1"), "n1"), onNode(placeholder("p2"), "n1")))
	r.expect("p1 on n1", "p2 on n1")
	return server, r, stream
}

// While a placeholder is being replaced, a replay has both: the placeholder as an allocation, and its member
// as a pending ask, with unchanged flags and groups.
func TestReplayWithinAReplacement(t *testing.T) {
	server, r, stream := gang(t)
	stream.allocations(released(si.TerminationType_PLACEHOLDER_REPLACED, "p1"))
	r.expect("p1 released: PLACEHOLDER_REPLACED")
	stream.cut()
	again, replayed := server.register(2, 1)
	expectSaid(t, replayed, "CREATE n1", "submit a1", "ask p1 n1", "ask p2 n1", "ask p3", "ask k1", "ask k2", "end 1 1 5")
	for _, request := range replayed {
		for _, item := range request.GetAllocations().GetAllocations() {
			if item.GetTaskGroupName() != "workers" || item.GetPlaceholder() != (item.GetAllocationKey()[0] == 'p') {
				t.Fatalf("the replay has %v", item)
			}
		}
	}
	if tag := replayed[1].GetApplications().GetNew()[0].GetTags()["application.create.force"]; tag != "true" {
		t.Fatal("an application whose placeholders run is not forced")
	}
	again.allocations(released(si.TerminationType_PLACEHOLDER_REPLACED, "p2"))
	r.expect("p2 released: PLACEHOLDER_REPLACED")
	r.terminate("p2", si.TerminationType_PLACEHOLDER_REPLACED)
	again.allocations(fresh(onNode(member("k1"), "n1")))
	r.expect("k1 on n1")
	replayedAsks(t, server, again, "ask p1 n1", "ask k1 n1", "ask p3", "ask k2")
}

// A timeout of a pending ask is complete: no replay has the ask. An allocation runs on until the RM confirms.
// The RM can ask again with the same key.
func TestTimeoutOfAGang(t *testing.T) {
	server, r, stream := gang(t)
	stream.allocations(released(si.TerminationType_TIMEOUT, "p1", "p2", "p3", "k1", "k2", "unknown"))
	r.expect("p1 released: TIMEOUT", "p2 released: TIMEOUT", "p3 released: TIMEOUT", "k1 released: TIMEOUT",
		"k2 released: TIMEOUT", "unknown released: TIMEOUT")
	r.terminate("p1", si.TerminationType_TIMEOUT)
	r.asks(member("k2"))
	again := replayedAsks(t, server, stream, "ask p2 n1", "ask k2")
	again.allocations(fresh(onNode(member("k2"), "n1")))
	r.expect("k2 on n1")
}

// A replay has a preempted allocation until the RM has confirmed its end.
func TestPreempted(t *testing.T) {
	server, r, stream := gang(t)
	stream.allocations(released(si.TerminationType_PREEMPTED_BY_SCHEDULER, "p1", "p2"))
	r.expect("p1 released: PREEMPTED_BY_SCHEDULER", "p2 released: PREEMPTED_BY_SCHEDULER")
	r.terminate("p1", si.TerminationType_PREEMPTED_BY_SCHEDULER)
	replayedAsks(t, server, stream, "ask p2 n1", "ask p3", "ask k1", "ask k2")
}

// The RM confirms stopped placeholders before their members run.
func TestStoppedWhileReplaced(t *testing.T) {
	server, r, stream := gang(t)
	stream.allocations(released(si.TerminationType_PLACEHOLDER_REPLACED, "p1"))
	r.release("p1")
	for {
		if said := said(stream.next()); len(said) == 1 && said[0] == "release p1" {
			break
		}
	}
	stream.allocations(released(si.TerminationType_STOPPED_BY_RM, "p1"))
	stream.allocations(fresh(onNode(member("k1"), "n1")))
	r.expect("p1 released: PLACEHOLDER_REPLACED", "p1 released: STOPPED_BY_RM", "k1 on n1")
	replayedAsks(t, server, stream, "ask p2 n1", "ask k1 n1", "ask p3", "ask k2")
	// The release is not reported again.
	if stats := r.client.Stats(); stats.Allocations != 2 || stats.Asks != 2 {
		t.Fatalf("stats: %+v", stats)
	}
}

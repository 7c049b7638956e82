package schedulerapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// victimsOn returns a node of a preemption check, with two victims.
func victimsOn(node string, start int32) *licornev1.NodeVictims {
	return &licornev1.NodeVictims{
		NodeId: node, StartIndex: start, Victims: []*licornev1.Victim{{AllocationKey: "v1"}, {AllocationKey: "v2"}},
	}
}

// preempts sends a preemption check; it returns the position of the last victim by node.
func (s *stage) preempts(key string, nodes ...*licornev1.NodeVictims) map[string]int {
	return s.handlers.JudgeVictims(&licornev1.PreemptionCheck{AllocationKey: key, Nodes: nodes})
}

// lastVictim returns the shim's answers by node; all other nodes fail.
func lastVictim(on map[string]int32) func(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return func(args *si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
		index, fits := on[args.GetNodeID()]
		return &si.PreemptionPredicatesResponse{Success: fits, Index: index}
	}
}

// The shim decides on which nodes the ask can run, and on the last victim to be stopped.
func TestShimJudgesVictims(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.shim.victims = lastVictim(map[string]int32{"n1": 0, "n2": 1})
	s.node("n4", si.NodeInfo_CREATE)
	s.node("n4", si.NodeInfo_DECOMISSION)
	got := s.preempts("k1", victimsOn("n1", 0), victimsOn("n2", 1), victimsOn("n3", 0), victimsOn("n4", 0))
	if want := map[string]int{"n1": 0, "n2": 1}; !maps.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	judged := slices.Sorted(slices.Values(s.shim.judged))
	want := []string{
		"k1 on n1 without [v1 v2] from 0", "k1 on n2 without [v1 v2] from 1", "k1 on n3 without [v1 v2] from 0",
	}
	if !slices.Equal(judged, want) {
		t.Fatalf("the shim was asked %q", judged)
	}
	s.sees(s.shim.take)
}

// If the resources fit now, the shim is first asked about the node without victims, and only if it refuses
// about victims. It never receives a start index below that of the first victim.
func TestNodeThatNeedsNoVictims(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.shim.victims = lastVictim(map[string]int32{"n1": 1, "n2": 1})
	s.shim.refuses = func(_, node string) error {
		if node == "n1" {
			return nil
		}
		return errors.New("the port is taken")
	}
	got := s.preempts("k1", victimsOn("n1", -1), victimsOn("n2", -1), &licornev1.NodeVictims{NodeId: "n3", StartIndex: -1})
	if want := map[string]int{"n1": -1, "n2": 1}; !maps.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if !slices.Contains(s.shim.judged, "k1 on n2 without [v1 v2] from 0") {
		t.Fatalf("the shim was asked %q", s.shim.judged)
	}
}

// An ask that is no longer pending needs no victims. If it has a node, the node is sent to the server.
func TestVictimsForAnAskThatWaitsNoMore(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	for _, key := range []string{"k1", "k2"} {
		if got := s.preempts(key, victimsOn("n1", 0)); len(got) != 0 {
			t.Fatalf("%s: %v", key, got)
		}
	}
	s.comesToSee(s.server.take, "ask k1", "place k1 on n1")
}

// At most ten nodes are checked concurrently. Nodes for which there is no time are refused, except the first
// ten.
func TestVictimsOfManyNodes(t *testing.T) {
	for deadline, want := range map[time.Duration]int{time.Hour: 25, 10 * time.Millisecond: judgedTogether} {
		s := setStage(t, func(options *Options) { options.PredicateDeadline = deadline })
		s.ask(allocation("k1", ""))
		var now, most atomic.Int32
		s.shim.victims = func(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Millisecond) // longer than a twentieth of the short deadline
			now.Add(-1)
			return &si.PreemptionPredicatesResponse{Success: true}
		}
		var nodes []*licornev1.NodeVictims
		for n := range 25 {
			name := fmt.Sprint("m", n)
			s.node(name, si.NodeInfo_CREATE)
			nodes = append(nodes, victimsOn(name, 0))
		}
		if got := s.preempts("k1", nodes...); len(got) != want {
			t.Fatalf("%d of 25 nodes were judged, want %d", len(got), want)
		}
		if most.Load() > judgedTogether {
			t.Fatalf("%d nodes were judged at a time", most.Load())
		}
	}
}

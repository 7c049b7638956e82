package schedulerapi

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// often makes rechecks of refusals frequent.
func often(options *Options) { options.RecheckInterval = time.Millisecond }

// unhurried returns the begin of a recheck that has time for all refusals.
func unhurried() time.Time { return time.Now().Add(time.Minute) }

var errCordoned = errors.New("cordoned")

// refusing makes the shim refuse nodes, by name.
func (s *stage) refusing(nodes ...string) {
	s.shim.mu.Lock()
	defer s.shim.mu.Unlock()
	s.shim.refuses = func(_, node string) error {
		for _, one := range nodes {
			if one == node {
				return errCordoned
			}
		}
		return nil
	}
}

// If the shim now accepts a refused node, the server sends a check for it again.
func TestChangedMindReopensTheNode(t *testing.T) {
	s := setStage(t, often)
	s.refusing("n1", "n2")
	s.ask(allocation("k1", ""))
	s.check("k1", "n1", "n2")
	s.sees(s.server.take, "ask k1")
	s.refusing("n2")
	s.comesToSee(s.server.take, "nodes DRAIN_NODE n1 DRAIN_TO_SCHEDULABLE n1")
	if refused := s.check("k1", "n1"); len(refused) != 0 {
		t.Fatalf("refused %v", refused)
	}
}

// A drained node remains drained when it is reopened.
func TestReopeningLeavesADrainedNodeDrained(t *testing.T) {
	s := setStage(t, often)
	s.refusing("n1")
	s.node("n1", si.NodeInfo_DRAIN_NODE)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.refusing()
	s.comesToSee(s.server.take, "nodes DRAIN_NODE n1", "ask k1", "nodes DRAIN_TO_SCHEDULABLE n1 DRAIN_NODE n1")
}

// A node with an unconfirmed taken ask is not reopened, because the server would drop the ask's allocation.
func TestReopeningWaitsForWhatWasTaken(t *testing.T) {
	s := setStage(t)
	s.refusing("n1")
	s.ask(allocation("k1", ""), allocation("k2", ""))
	s.check("k1", "n1")
	s.refusing()
	s.check("k2", "n1")
	s.server.take()
	s.rm.keeper.recheck(s.rm.running, time.Now())
	s.sees(s.server.take)
	s.serverAllocates("k2", "n1")
	s.rm.keeper.recheck(s.rm.running, time.Now().Add(2*time.Hour))
	s.sees(s.server.take, "nodes DRAIN_NODE n1 DRAIN_TO_SCHEDULABLE n1")
}

// An ask taken on a node while it is reopened is placed again, because the server drops its allocation.
func TestTakenWhileReopeningIsPlaced(t *testing.T) {
	s := setStage(t)
	s.refusing("n1")
	s.ask(allocation("k1", ""), allocation("k2", ""))
	s.check("k1", "n1")
	s.refusing()
	s.server.take()
	s.server.queueing = func() { s.check("k2", "n1") }
	s.rm.keeper.recheck(s.rm.running, unhurried())
	s.comesToSee(s.server.take, "nodes DRAIN_NODE n1 DRAIN_TO_SCHEDULABLE n1", "place k2 on n1")
}

// A node with more refusals than are remembered is reopened after a while, one node at a time, because the
// shim may accept it for a dropped one.
func TestForgottenRefusalsReopenTheNode(t *testing.T) {
	s := setStage(t)
	s.refusing("n1", "n2")
	nodes := []string{"n1", "n2"}
	for n := range subjectsKept + 1 {
		key := fmt.Sprint("k", n)
		s.ask(allocation(key, ""))
		s.check(key, nodes...)
	}
	s.server.take()
	s.rm.keeper.recheck(s.rm.running, time.Now())
	s.sees(s.server.take)
	later := time.Now().Add(longestWait)
	for pass := range 3 {
		s.rm.keeper.recheck(s.rm.running, later.Add(time.Duration(pass)*time.Second))
	}
	got := s.server.take()
	slices.Sort(got)
	want := []string{"nodes DRAIN_NODE n1 DRAIN_TO_SCHEDULABLE n1", "nodes DRAIN_NODE n2 DRAIN_TO_SCHEDULABLE n2"}
	if !slices.Equal(got, want) {
		t.Fatalf("the server got %q", got)
	}
}

// Refusals of asks that are no longer pending, and of removed nodes, are not checked.
func TestRefusalsEnd(t *testing.T) {
	s := setStage(t)
	s.refusing("n1", "n2")
	s.ask(allocation("k1", ""), allocation("k2", ""))
	s.check("k1", "n1")
	s.check("k2", "n2")
	s.release("k1", stoppedByRM)
	s.node("n2", si.NodeInfo_DECOMISSION)
	judged := len(s.shim.judged)
	s.rm.keeper.recheck(s.rm.running, time.Now())
	if again := s.shim.judged[judged:]; len(again) != 0 {
		t.Fatalf("judged again: %v", again)
	}
}

// No refusal of a removed node is remembered.
func TestNoRefusalOfARemovedNodeIsKept(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.node("n1", si.NodeInfo_DECOMISSION)
	s.check("k1", "n1")
	s.shim.refuses = func(string, string) error {
		s.node("n2", si.NodeInfo_DECOMISSION)
		return errCordoned
	}
	s.check("k1", "n2")
	if left := len(s.rm.refusals.nodes) + len(s.rm.refusals.queue); left != 0 {
		t.Fatalf("%d refusals are remembered", left)
	}
}

// A node that was reopened in vain waits longer each time.
func TestReopeningInVainTakesLonger(t *testing.T) {
	f := newRefusals(time.Second)
	now := time.Now()
	var waits []time.Duration
	for range 8 {
		f.refused("n1", subject{of: "k1"}, now)
		for start := now; ; now = now.Add(time.Second) {
			if _, _, ok := f.next(now); ok {
				waits = append(waits, now.Sub(start))
				break
			}
		}
		f.reopened("n1", now)
	}
	want := []time.Duration{0, 1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 60e9}
	if fmt.Sprint(waits) != fmt.Sprint(want) {
		t.Fatalf("it took %v, want %v", waits, want)
	}
}

// Of many refusals of a node some are remembered, which are checked in turn.
func TestRefusalsTakeTurns(t *testing.T) {
	f := newRefusals(time.Second)
	for n := range 3 * subjectsKept {
		f.refused("n1", subject{of: fmt.Sprint("k", n)}, time.Now())
	}
	seen := map[string]bool{}
	for pass := range subjectsKept {
		_, about, ok := f.next(time.Now().Add(time.Duration(pass) * time.Minute))
		if !ok || seen[about.of] {
			t.Fatalf("%q comes up in pass %d", about.of, pass)
		}
		seen[about.of] = true
	}
}

// Asks of one class share refusals: a pending ask is checked in place of an ended one.
func TestClassesShareRefusals(t *testing.T) {
	s := setStage(t, func(options *Options) {
		options.PredicateClass = func(*si.Allocation) string { return "gpu" }
	})
	s.refusing("n1")
	s.ask(allocation("k1", ""), allocation("k2", ""))
	s.sees(s.server.take, "ask k1 of gpu", "ask k2 of gpu")
	s.check("k1", "n1")
	s.release("k1", stoppedByRM)
	s.refusing()
	s.server.take()
	s.rm.keeper.recheck(s.rm.running, unhurried())
	s.sees(s.server.take, "nodes DRAIN_NODE n1 DRAIN_TO_SCHEDULABLE n1")
}

// The class is a tag of the sent ask. The shim's message is unchanged.
func TestClassLeavesTheShimsMessageAlone(t *testing.T) {
	s := setStage(t, func(options *Options) {
		options.PredicateClass = func(*si.Allocation) string { return "gpu" }
	})
	sent := allocation("k1", "")
	sent.AllocationTags = map[string]string{"label": "x"}
	foreign := &si.Allocation{AllocationKey: "f", NodeID: "n1", AllocationTags: map[string]string{"foreign": "static"}}
	s.ask(sent, foreign)
	s.sees(s.server.take, "ask k1 of gpu", "place f on n1")
	if len(sent.GetAllocationTags()) != 1 {
		t.Fatalf("the tags became %v", sent.GetAllocationTags())
	}
}

// A check with any number of nodes is answered in a share of the deadline. Unchecked nodes are refused, and
// checked later.
func TestSlowJudgingIsBounded(t *testing.T) {
	s := setStage(t, quick)
	s.ask(allocation("k1", ""))
	s.shim.refuses = func(string, string) error {
		time.Sleep(s.rm.options.PredicateDeadline)
		return errCordoned
	}
	refused := s.check("k1", "n1", "n2", "n3")
	if refused["n1"] != errCordoned.Error() || refused["n2"] != notJudged || refused["n3"] != notJudged {
		t.Fatalf("refused %v", refused)
	}
	s.refusing("n1")
	s.server.take()
	s.rm.keeper.recheck(s.rm.running, unhurried())
	s.sees(s.server.take, "nodes DRAIN_NODE n2 DRAIN_TO_SCHEDULABLE n2", "nodes DRAIN_NODE n3 DRAIN_TO_SCHEDULABLE n3")
}

// The shim has the ask on the first node when it checks the other nodes, as for later asks of the class.
func TestOtherNodesAreJudgedAfterTheFirstIsTaken(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.shim.refuses = func(_, node string) error {
		s.shim.mu.Lock()
		defer s.shim.mu.Unlock()
		if node != "n1" && len(s.shim.heard) == 0 {
			return errors.New("judged too early")
		}
		return nil
	}
	if refused := s.check("k1", "n1", "n2", "n3"); len(refused) != 0 {
		t.Fatalf("refused %v", refused)
	}
	if refused := s.handlers.Check(&licornev1.PredicateCheck{AllocationKey: "k1", Allocate: true}); len(refused) != 0 {
		t.Fatalf("a check of no nodes refused %v", refused)
	}
}

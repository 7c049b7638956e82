package schedulerapi

import (
	"errors"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

const (
	timeout   = si.TerminationType_TIMEOUT
	replaced  = si.TerminationType_PLACEHOLDER_REPLACED
	preempted = si.TerminationType_PREEMPTED_BY_SCHEDULER
)

func member(key string) *si.Allocation {
	ask := allocation(key, "")
	ask.TaskGroupName = "workers"
	return ask
}

func placeholder(key string) *si.Allocation {
	ask := member(key)
	ask.Placeholder = true
	return ask
}

// checkPlace sends a check for a reservation: may an ask be placed on a node, regardless of its allocations?
func (s *stage) checkPlace(key, node string) map[string]string {
	return s.handlers.Check(&licornev1.PredicateCheck{AllocationKey: key, NodeIds: []string{node}})
}

// A placeholder is taken like any ask. The member that replaces it is not taken: the shim receives its
// allocation after the end of the placeholder, on any node.
func TestMemberWaitsForItsPlaceholder(t *testing.T) {
	for _, node := range []string{"n1", "n2"} {
		s := setStage(t)
		s.ask(placeholder("p1"), member("k1"))
		s.check("p1", "n1")
		s.serverAllocates("p1", "n1")
		if refused := s.check("k1", node); len(refused) != 0 {
			t.Fatalf("refused %v", refused)
		}
		s.serverReleases("p1", replaced)
		s.sees(s.shim.take, "new p1 on n1", "released p1")
		s.release("p1", replaced)
		s.serverAllocates("k1", node)
		s.sees(s.shim.take, "new k1 on "+node)
		s.sees(s.server.take, "ask p1", "ask k1", "release p1")
	}
}

// Members of a group without placeholders are taken like all asks, and so are asks of other applications.
func TestMemberWithoutPlaceholdersIsTaken(t *testing.T) {
	s := setStage(t)
	other := member("k2")
	other.ApplicationID = "other"
	s.ask(placeholder("p1"), placeholder("p2"), member("k1"), other)
	s.check("k2", "n1")
	s.release("p1", stoppedByRM)
	s.check("k1", "n1")
	s.sees(s.shim.take, "new k2 on n1")
	s.release("p2", stoppedByRM)
	s.check("k1", "n1")
	s.sees(s.shim.take, "new k1 on n1")
}

// After a timeout the shim receives the release of each pending ask, which is dropped. An allocation runs on
// until the shim confirms its release.
func TestTimeout(t *testing.T) {
	s := setStage(t)
	s.ask(placeholder("p1"), placeholder("p2"), placeholder("p3"), member("k1"))
	s.check("p1", "n1")
	s.serverAllocates("p1", "n1")
	s.check("p2", "n1")
	for _, key := range []string{"p1", "p2", "p3", "k1"} {
		s.serverReleases(key, timeout)
	}
	s.sees(s.shim.take, "new p1 on n1", "new p2 on n1", "released p1", "released p2", "released p3", "released k1")
	for key, want := range map[string]standing{"p1": placed, "p2": taken, "p3": unknown, "k1": unknown} {
		if where, _ := s.rm.books.find(key); where != want {
			t.Errorf("%s is %v, want %v", key, where, want)
		}
	}
	for _, key := range []string{"p1", "p2", "p3", "k1"} {
		s.release(key, timeout)
		if where, _ := s.rm.books.find(key); where != unknown {
			t.Errorf("%s is %v after its end", key, where)
		}
	}
	if left := len(s.rm.books.placeholders); left != 0 {
		t.Errorf("%d groups have placeholders", left)
	}
}

// A timeout of pending asks does not end a taken ask: its node is sent to the server.
func TestTimeoutOfATakenAsk(t *testing.T) {
	s := setStage(t)
	s.ask(member("k1"))
	s.check("k1", "n1")
	s.serverReleases("k1", timeout)
	s.comesToSee(s.server.take, "ask k1", "place k1 on n1")
	s.sees(s.shim.take, "new k1 on n1")
}

// If the server preempts an allocation that the shim refused, the shim sees neither, and the ask is pending.
func TestPreemptionOfWhatNeverRan(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.refusing("n1")
	s.rm.order.RLock() // the keeper has to wait
	s.serverAllocates("k1", "n1")
	s.serverReleases("k1", preempted)
	s.rm.order.RUnlock()
	got := s.server.take()
	for end := time.Now().Add(patient); len(got) < 3 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		got = append(got, s.server.take()...)
	}
	// The keeper may have handed back the allocation before.
	if len(got) < 3 || got[len(got)-2] != "confirm k1" || got[len(got)-1] != "ask k1" {
		t.Fatalf("the server got %q", got)
	}
	s.sees(s.shim.take)
	s.check("k1", "n2")
	s.sees(s.shim.take, "new k1 on n2")
}

// An ask that the shim has released meanwhile is neither confirmed nor submitted again.
func TestReleasedAskIsNotStopped(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.release("k1", stoppedByRM)
	s.rm.keeper.stopAndAsk("k1")
	s.sees(s.server.take, "ask k1", "release k1")
}

// If a member is refused the node of a placeholder, the refusal is checked again while the group has
// placeholders, with the same kind of check, which ignores the placeholder itself.
func TestRefusedPlaceIsJudgedAgain(t *testing.T) {
	s := setStage(t)
	s.ask(placeholder("p1"), member("k1"))
	s.refusing("n1")
	s.checkPlace("k1", "n1")
	s.server.take()
	s.rm.keeper.recheck(s.rm.running, time.Now())
	s.sees(s.server.take)
	s.shim.allocates = errors.New("the placeholder takes the room")
	s.refusing()
	s.rm.keeper.recheck(s.rm.running, time.Now().Add(2*time.Hour))
	s.sees(s.server.take, "nodes DRAIN_NODE n1 DRAIN_TO_SCHEDULABLE n1")
	s.refusing("n1")
	s.checkPlace("k1", "n1")
	s.release("p1", stoppedByRM)
	s.refusing()
	s.server.take()
	s.rm.keeper.recheck(s.rm.running, time.Now().Add(4*time.Hour))
	s.sees(s.server.take)
}

// The shim receives the states of applications.
func TestStatesOfAnApplication(t *testing.T) {
	s := setStage(t)
	for _, state := range []string{"Resuming", "Failing", "Failed"} {
		s.handlers.Applications(&si.ApplicationResponse{Updated: []*si.UpdatedApplication{
			{ApplicationID: "app", State: state, Message: "ResourceReservationTimeout"},
		}})
	}
	s.sees(s.shim.take, "app is Resuming: ResourceReservationTimeout", "app is Failing: ResourceReservationTimeout",
		"app is Failed: ResourceReservationTimeout")
}

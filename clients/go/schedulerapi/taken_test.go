package schedulerapi

import (
	"errors"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

const stoppedByRM = si.TerminationType_STOPPED_BY_RM

// quick sets a short deadline, so that unconfirmed asks are soon overdue.
func quick(options *Options) { options.PredicateDeadline = 10 * time.Millisecond }

// The shim receives an allocation before the next check, and only once.
func TestAcceptedFirstNodeIsHandedOverAtOnce(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""), allocation("k2", ""))
	placed := map[string]string{}
	s.shim.hears = func(response *si.AllocationResponse) {
		for _, one := range response.GetNew() {
			placed[one.GetNodeID()] = one.GetAllocationKey()
		}
	}
	s.shim.refuses = func(_, node string) error {
		if placed[node] != "" {
			return errors.New("one is enough")
		}
		return nil
	}
	if refused := s.check("k1", "n1"); len(refused) != 0 {
		t.Fatalf("k1 was refused: %v", refused)
	}
	s.sees(s.shim.take, "new k1 on n1")
	if refused := s.check("k2", "n1", "n2"); len(refused) != 1 || refused["n1"] != "one is enough" {
		t.Fatalf("k2 does not see k1: %v", refused)
	}
	s.sees(s.shim.take)
	s.serverAllocates("k1", "n1")
	s.sees(s.shim.take)
	if s.server.assumed["k1"] != "n1" {
		t.Fatal("a replay would not report k1 as placed")
	}
}

// An allocation that was not checked, because its class was accepted before, reaches the shim.
func TestUncheckedAllocationReachesTheShim(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.serverAllocates("k1", "n1")
	s.serverAllocates("k1", "n1")
	s.sees(s.shim.take, "new k1 on n1")
}

// An allocation that is based on an older answer is checked again. If the shim now refuses the node, it does
// not receive the allocation: the ask is pending again, and may be placed on another node.
func TestAllocationThatIsRefusedByNowIsHandedBack(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.refusing("n1")
	s.serverAllocates("k1", "n1")
	s.comesToSee(s.server.take, "ask k1", "release k1")
	s.sees(s.shim.take)
	if refused := s.check("k1", "n2"); len(refused) != 0 {
		t.Fatalf("refused %v", refused)
	}
	s.sees(s.shim.take, "new k1 on n2")
}

// An ask that the shim has released meanwhile is not handed back.
func TestReleasedAskIsNotHandedBack(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.release("k1", stoppedByRM)
	s.rm.keeper.handBack("k1")
	s.sees(s.server.take, "ask k1", "release k1")
}

// A reported allocation is echoed to the shim once, as it expects.
func TestExistingAllocationIsEchoed(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", "n2"))
	s.sees(s.server.take, "place k1 on n2")
	s.serverAllocates("k1", "n2")
	s.serverAllocates("k1", "n2")
	s.sees(s.shim.take, "new k1 on n2")
}

// The shim receives a release by the core after the allocation, and only if it has the allocation.
func TestReleaseByTheCoreComesAfterTheAllocation(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.serverAllocates("k1", "n1")
	s.serverReleases("k1", si.TerminationType_PREEMPTED_BY_SCHEDULER)
	s.sees(s.shim.take, "new k1 on n1", "released k1")
	// It runs on until the shim confirms.
	if where, _ := s.rm.books.find("k1"); where != placed {
		t.Fatal("k1 was forgotten before the shim released it")
	}
	s.release("k1", si.TerminationType_PREEMPTED_BY_SCHEDULER)
	if where, _ := s.rm.books.find("k1"); where != unknown {
		t.Fatal("k1 was not forgotten")
	}
}

// If the server sends a check of a taken ask, it has reverted the allocation: the ask's node is sent.
func TestSecondCheckOfATakenAskPlacesIt(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.sees(s.server.take, "ask k1")
	refused := s.check("k1", "n2", "n1")
	if len(refused) != 1 || refused["n2"] != "the ask is placed on node n1" {
		t.Fatalf("refused %v", refused)
	}
	s.comesToSee(s.server.take, "place k1 on n1")
	s.serverAllocates("k1", "n1")
	s.sees(s.shim.take, "new k1 on n1")
}

// If the check is for the node of the ask, the answer is enough.
func TestSecondCheckOfTheSameNodeIsAccepted(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	if refused := s.check("k1", "n1"); len(refused) != 0 {
		t.Fatalf("refused %v", refused)
	}
	s.serverAllocates("k1", "n1")
	s.sees(s.shim.take, "new k1 on n1")
	s.sees(s.server.take, "ask k1")
}

// An ask that is not confirmed within twice the deadline is placed, once.
func TestUnconfirmedAskIsPlaced(t *testing.T) {
	s := setStage(t, quick)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.comesToSee(s.server.take, "ask k1", "place k1 on n1")
	if late := s.rm.books.overdue(time.Now().Add(time.Hour)); len(late) != 0 {
		t.Fatalf("%v would be placed again", late)
	}
	s.serverAllocates("k1", "n1")
	s.sees(s.shim.take, "new k1 on n1")
}

// A confirmed ask is not placed again.
func TestConfirmedAskIsNotPlaced(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.serverAllocates("k1", "n1")
	if late := s.rm.books.overdue(time.Now().Add(time.Hour)); len(late) != 0 {
		t.Fatalf("%v would be placed", late)
	}
}

// Neither an allocation on another node nor the release that moves it back reaches the shim.
func TestAllocationElsewhereIsMovedBack(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.serverAllocates("k1", "n2")
	s.comesToSee(s.server.take, "ask k1", "release k1", "place k1 on n1")
	s.serverReleases("k1", stoppedByRM)
	s.serverAllocates("k1", "n1")
	s.sees(s.shim.take, "new k1 on n1")
	if where, node := s.rm.books.find("k1"); where != placed || node != "n1" {
		t.Fatalf("k1 is %v on %s", where, node)
	}
	// The shim must receive the next release.
	s.serverReleases("k1", stoppedByRM)
	s.sees(s.shim.take, "released k1")
}

// If the server itself ends an allocation on another node first, only the ask's node is sent.
func TestReleaseElsewhereIsNoEnd(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.rm.order.RLock() // the keeper has to wait
	s.serverAllocates("k1", "n2")
	s.serverReleases("k1", stoppedByRM)
	s.rm.order.RUnlock()
	s.comesToSee(s.server.take, "ask k1", "place k1 on n1")
	s.sees(s.shim.take, "new k1 on n1")
	// The shim must receive the next release.
	s.serverReleases("k1", stoppedByRM)
	s.sees(s.shim.take, "released k1")
}

// An allocation on a node that the shim has removed meanwhile ends before the shim receives it. The ask is
// still pending for the shim, so it is submitted again.
func TestAllocationOnARemovedNodeIsAskedForAgain(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.node("n1", si.NodeInfo_DECOMISSION)
	s.serverAllocates("k1", "n1")
	s.comesToSee(s.server.take, "ask k1", "nodes DECOMISSION n1", "release k1")
	s.serverReleases("k1", stoppedByRM)
	s.comesToSee(s.server.take, "ask k1")
	s.sees(s.shim.take)
	s.serverAllocates("k1", "n2")
	s.sees(s.shim.take, "new k1 on n2")
}

// An ask that the shim has released meanwhile is not submitted again.
func TestReleasedAskIsNotAskedForAgain(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.release("k1", stoppedByRM)
	s.rm.keeper.ask("k1")
	s.sees(s.server.take, "ask k1", "release k1")
}

// A released key is never placed, after any event.
func TestReleasedAskIsNeverPlaced(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.release("k1", stoppedByRM)
	s.sees(s.server.take, "ask k1", "release k1")
	if refused := s.check("k1", "n2"); refused["n2"] != askEnded {
		t.Fatalf("refused %v", refused)
	}
	s.serverAllocates("k1", "n2")
	s.rm.keeper.place("k1")
	s.serverReleases("k1", stoppedByRM)
	s.sees(s.server.take)
	s.sees(s.shim.take, "new k1 on n1", "released k1")
}

// A key that was due to be placed when the shim released it is not placed after the release.
func TestReleaseOvertakesThePlacing(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.server.take()
	s.server.blocked = make(chan struct{})
	released := make(chan error)
	go func() { released <- s.rm.updateAllocation(releaseOf("k1", stoppedByRM)) }()
	for where := taken; where != unknown; where, _ = s.rm.books.find("k1") {
		time.Sleep(time.Millisecond)
	}
	s.rm.keeper.add("k1", placeIt)
	close(s.server.blocked)
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	s.rm.keeper.place("k1")
	s.sees(s.server.take, "release k1")
}

// If the shim releases an ask in the callback with its allocation, the server receives only the release.
func TestReleaseWithinTheCallback(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.shim.hears = func(*si.AllocationResponse) {
		// The shim calls the scheduler within the callback, with its own locks.
		s.release("k1", stoppedByRM)
	}
	s.check("k1", "n1")
	s.rm.keeper.place("k1")
	s.sees(s.server.take, "ask k1", "release k1")
}

// The application of a taken ask is removed: its asks are not placed.
func TestRemovedApplicationIsNeverPlaced(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	removed := &si.RemoveApplicationRequest{ApplicationID: "app"}
	if err := s.rm.updateApplication(&si.ApplicationRequest{Remove: []*si.RemoveApplicationRequest{removed}}); err != nil {
		t.Fatal(err)
	}
	s.rm.keeper.place("k1")
	s.serverAllocates("k1", "n2")
	s.sees(s.server.take, "ask k1", "applications +0 -1")
	s.sees(s.shim.take, "new k1 on n1")
}

// An ask that was taken on a node ends with the node, for the server, which may have it pending, and for the shim.
func TestTakenAskEndsWithItsNode(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.node("n1", si.NodeInfo_DECOMISSION)
	s.sees(s.server.take, "ask k1", "nodes DECOMISSION n1", "release k1")
	s.comesToSee(s.shim.take, "new k1 on n1", "released k1")
	s.serverAllocates("k1", "n2")
	s.rm.keeper.place("k1")
	s.sees(s.server.take)
	s.sees(s.shim.take)
}

// A removed node is refused without a call of the shim, and no ask is taken there.
func TestRemovedNodeIsRefused(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.node("n1", si.NodeInfo_DECOMISSION)
	if refused := s.check("k1", "n1"); refused["n1"] != errNodeRemoved.Error() {
		t.Fatalf("refused %v", refused)
	}
	s.sees(s.shim.take)
}

// An allocation that the shim could not start is a pending ask again, for any node.
func TestFailedAllocationIsAnAskAgain(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.serverAllocates("k1", "n1")
	s.release("k1", schedulingFailed)
	if refused := s.check("k1", "n2"); len(refused) != 0 {
		t.Fatalf("refused %v", refused)
	}
	s.sees(s.shim.take, "new k1 on n1", "new k1 on n2")
}

// A taken ask that was resized is placed with the new size.
func TestTakenAskIsPlacedAsTheShimSentItLast(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	grown := allocation("k1", "")
	grown.Priority = 7
	s.ask(grown)
	if again, _ := s.rm.books.place("k1"); again.GetPriority() != 7 || again.GetNodeID() != "n1" {
		t.Fatalf("%v would be sent", again)
	}
}

// A check for a reservation takes no ask.
func TestReservationTakesNothing(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.shim.refuses = func(_, node string) error {
		if node == "n1" {
			return errors.New("no gpu")
		}
		return nil
	}
	refused := s.handlers.Check(&licornev1.PredicateCheck{AllocationKey: "k1", NodeIds: []string{"n1", "n2"}})
	if len(refused) != 1 || refused["n1"] != "no gpu" {
		t.Fatalf("refused %v", refused)
	}
	s.sees(s.shim.take)
	if where, _ := s.rm.books.find("k1"); where != pending {
		t.Fatal("k1 was taken")
	}
}

// A rejected ask is reported and dropped; the rejection of a new size leaves the allocation.
func TestRejections(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""), allocation("k2", ""))
	s.check("k2", "n1")
	for _, key := range []string{"k1", "k2"} {
		s.handlers.Allocations(&si.AllocationResponse{
			RejectedAllocations: []*si.RejectedAllocation{{AllocationKey: key}},
		})
	}
	s.sees(s.shim.take, "new k2 on n1", "rejected k1", "rejected k2")
	if where, _ := s.rm.books.find("k1"); where != unknown {
		t.Fatal("k1 is still known")
	}
	if where, _ := s.rm.books.find("k2"); where != taken {
		t.Fatal("k2 was forgotten")
	}
}

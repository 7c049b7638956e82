package schedulerapi

import (
	"errors"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

const stoppedByRM = si.TerminationType_STOPPED_BY_RM

// quick makes the time for an answer short, so that what is not confirmed is soon overdue.
func quick(options *Options) { options.PredicateDeadline = 10 * time.Millisecond }

// The shim has an allocation before the next check is judged, and hears of it once.
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

// An allocation that rests on an older answer is judged again. If the shim refuses the node by now it
// never hears of that: the server gets the ask back, and may put it elsewhere.
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

// What the shim has released meanwhile is not handed back.
func TestReleasedAskIsNotHandedBack(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.release("k1", stoppedByRM)
	s.rm.keeper.handBack("k1")
	s.sees(s.server.take, "ask k1", "release k1")
}

// What the shim reports as running is echoed to it once, as it expects.
func TestExistingAllocationIsEchoed(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", "n2"))
	s.sees(s.server.take, "place k1 on n2")
	s.serverAllocates("k1", "n2")
	s.serverAllocates("k1", "n2")
	s.sees(s.shim.take, "new k1 on n2")
}

// A release by the core comes after its allocation, and again only where the shim does not know.
func TestReleaseByTheCoreComesAfterTheAllocation(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.serverAllocates("k1", "n1")
	s.serverReleases("k1", si.TerminationType_PREEMPTED_BY_SCHEDULER)
	s.sees(s.shim.take, "new k1 on n1", "released k1")
	// It goes on until the shim agrees.
	if where, _ := s.rm.books.find("k1"); where != placed {
		t.Fatal("k1 was forgotten before the shim released it")
	}
	s.release("k1", si.TerminationType_PREEMPTED_BY_SCHEDULER)
	if where, _ := s.rm.books.find("k1"); where != unknown {
		t.Fatal("k1 was not forgotten")
	}
}

// A server that asks about a taken ask has rolled it back: it is told where the ask is.
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

// Asked about the node where the ask is, the answer is enough.
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

// An ask that is not confirmed in twice the deadline is placed, once.
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

// A confirmed ask is left alone.
func TestConfirmedAskIsNotPlaced(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.check("k1", "n1")
	s.serverAllocates("k1", "n1")
	if late := s.rm.books.overdue(time.Now().Add(time.Hour)); len(late) != 0 {
		t.Fatalf("%v would be placed", late)
	}
}

// An allocation on another node never reaches the shim: it is moved back, and the release that this
// takes is the adapter's own affair.
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
	// The next release is one that the shim has to hear of.
	s.serverReleases("k1", stoppedByRM)
	s.sees(s.shim.take, "released k1")
}

// The server ends by itself what it has elsewhere, before it is told to: it is told where the ask is.
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
	// The next release is one that the shim has to hear of.
	s.serverReleases("k1", stoppedByRM)
	s.sees(s.shim.take, "released k1")
}

// An allocation on a node that the shim has removed meanwhile ends before the shim hears of it. The
// shim still waits, so the server is asked again.
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

// What the shim has released meanwhile is not asked for again.
func TestReleasedAskIsNotAskedForAgain(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.release("k1", stoppedByRM)
	s.rm.keeper.ask("k1")
	s.sees(s.server.take, "ask k1", "release k1")
}

// A key that the shim has released is never placed, whatever comes up for it.
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

// Released while the shim is being told of it: the server gets the release and nothing else.
func TestReleaseWithinTheCallback(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.shim.hears = func(*si.AllocationResponse) {
		// The shim calls back with its own locks held, from within.
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

// What was taken on a node ends with the node: for the server, which may have it pending, and for
// the shim, as if the server had removed it.
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

// A node that the shim has removed is refused without asking the shim, and nothing is taken there.
func TestRemovedNodeIsRefused(t *testing.T) {
	s := setStage(t)
	s.ask(allocation("k1", ""))
	s.node("n1", si.NodeInfo_DECOMISSION)
	if refused := s.check("k1", "n1"); refused["n1"] != errNodeRemoved.Error() {
		t.Fatalf("refused %v", refused)
	}
	s.sees(s.shim.take)
}

// An allocation that the shim could not start is an ask again, and may go anywhere.
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

// A taken ask of another size is placed in that size.
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

// For a reservation the shim is only asked.
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

// A rejected ask is told, and forgotten; the rejection of a new size leaves what runs.
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

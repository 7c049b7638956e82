package licorne_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// noticed makes an RM receive notices of preemption.
func noticed(told func(*licornev1.PreemptionNotices)) options {
	return func(_ *licorne.Config, handlers *licorne.Handlers) { handlers.PreemptionNotices = told }
}

// noticeAnswers returns the answers to notices in a request: partition, application, key and delay in ms.
func noticeAnswers(request *licornev1.UpdateRequest) []string {
	var lines []string
	for _, a := range request.GetNoticeAnswers().GetAnswers() {
		lines = append(lines, fmt.Sprintf("%s/%s/%s %d",
			a.GetPartitionName(), a.GetApplicationId(), a.GetAllocationKey(), a.GetLaterMilliseconds()))
	}
	return lines
}

// checkpoints returns the allocations in requests, each with its node and its checkpoint.
func checkpoints(requests ...*licornev1.UpdateRequest) []string {
	var lines []string
	for _, request := range requests {
		for _, item := range request.GetAllocations().GetAllocations() {
			lines = append(lines, fmt.Sprintf("%s %s %s",
				item.GetAllocationKey(), item.GetNodeID(), item.GetAllocationTags()[licorne.TagCheckpoint]))
		}
	}
	return lines
}

func expectLines(t *testing.T, got []string, wanted ...string) {
	t.Helper()
	if !slices.Equal(got, wanted) {
		t.Fatalf("got %q and not %q", got, wanted)
	}
}

// saved sends allocations again with a tag.
func (r *rm) saved(tag, value string, items ...*si.Allocation) {
	r.t.Helper()
	for _, item := range items {
		item.AllocationTags = map[string]string{tag: value}
	}
	r.asks(items...)
}

// The hello requests notices. The handler receives notices and withdrawals in the order of all events.
func TestNoticesAreTold(t *testing.T) {
	server := serve(t)
	var r *rm
	r = newRM(t, server.address, noticed(func(notices *licornev1.PreemptionNotices) {
		for _, n := range notices.GetNotices() {
			r.tell("%s at %d for %s, %v s lost", n.GetAllocationKey(), n.GetDeadline(), n.GetBeneficiaryAllocationKey(), n.GetLostSeconds())
		}
		for _, gone := range notices.GetWithdrawn() {
			r.tell("%s goes on", gone.GetAllocationKey())
		}
	}))
	r.asks(ask("k1"))
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.start()
	stream := server.accept()
	if !stream.hello.GetCallbacks().GetPreemptionNotices() {
		t.Fatalf("the hello says %v", stream.hello.GetCallbacks())
	}
	stream.register()
	stream.allocations(fresh(allocation("k1", "n1")))
	stream.notices(&licornev1.PreemptionNotices{Notices: []*licornev1.PreemptionNotice{
		{ApplicationId: "a1", AllocationKey: "k1", Deadline: 60e9, BeneficiaryAllocationKey: "k2", LostSeconds: 1.5},
	}})
	stream.notices(&licornev1.PreemptionNotices{Withdrawn: []*licornev1.Victim{{ApplicationId: "a1", AllocationKey: "k1"}}})
	r.expect("k1 on n1", "k1 at 60000000000 for k2, 1.5 s lost", "k1 goes on")
	stream.awaitAcknowledged()
}

func (s *scriptedStream) notices(notices *licornev1.PreemptionNotices) {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_PreemptionNotices{PreemptionNotices: notices}})
}

// Without the handler the hello requests no notices, and a received notice is ignored.
func TestNoticesAreNotWanted(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream := server.accept()
	if stream.hello.GetCallbacks().GetPreemptionNotices() {
		t.Fatalf("the hello says %v", stream.hello.GetCallbacks())
	}
	stream.register()
	r.ready()
	stream.notices(&licornev1.PreemptionNotices{Notices: []*licornev1.PreemptionNotice{{AllocationKey: "k1"}}})
	stream.awaitAcknowledged()
}

// Answers name the allocation like the RM, and are sent after the items of earlier calls, so that an earlier
// checkpoint counts. Consecutive answers share a message.
func TestNoticesAreAnswered(t *testing.T) {
	server, r, stream := told(t)
	elsewhere := allocation("k9", "n2")
	elsewhere.PartitionName, elsewhere.ApplicationID = "[rm1]gpu", "a2"
	r.asks(elsewhere)
	stream.next()
	blockWriter(t, r)
	r.must(r.client.Checkpoint("k1", time.Unix(1_700_000_000, 999)))
	r.must(r.client.ReadyToStop("k1", 0))
	r.must(r.client.ReadyToStop("k9", 20*time.Second+time.Nanosecond))
	r.must(r.client.ReadyToStop("unknown", 0))
	r.asks(ask("k10"))
	stream.next()
	stream.next()
	expectLines(t, checkpoints(stream.next()), "k1 n1 1700000000")
	expectLines(t, noticeAnswers(stream.next()), "/a1/k1 0", "[rm1]gpu/a2/k9 20001")
	expectSaid(t, []*licornev1.UpdateRequest{stream.next()}, "ask k10")
	r.must(r.client.ReadyToStop("k2", time.Nanosecond))
	expectLines(t, noticeAnswers(stream.next()), "/a1/k2 1")
	// The next stream of the session repeats unprocessed requests.
	stream.cut()
	again := server.resume(stream, stream.processed-1)
	expectLines(t, noticeAnswers(again.next()), "/a1/k2 1")
}

// Without a session there are no notices to answer: queued answers are dropped with the session, and none is
// queued before the next one.
func TestAnswersEndWithTheSession(t *testing.T) {
	server, r, stream := told(t)
	blockWriter(t, r)
	r.must(r.client.ReadyToStop("k1", 0))
	stream.cut()
	again := server.accept()
	again.stamp = [2]uint64{2, 1}
	again.register()
	r.asks(ask("k9"))
	expectSaid(t, []*licornev1.UpdateRequest{again.next()}, "ask k9")
	early := newRM(t, server.address)
	early.asks(allocation("k1", "n1"))
	early.must(early.client.ReadyToStop("k1", 0))
	early.start()
	first, _ := server.register()
	early.asks(ask("k2"))
	expectSaid(t, []*licornev1.UpdateRequest{first.next()}, "ask k2")
}

// A delay out of range is refused, and every answer after the end of the client.
func TestAnswersAreChecked(t *testing.T) {
	r := newRM(t, "127.0.0.1:1")
	for _, after := range []time.Duration{-1, 1_000_000*time.Second + 1} {
		var bad *licorne.InvalidError
		if err := r.client.ReadyToStop("k1", after); !errors.As(err, &bad) || bad.Field != "after" {
			t.Errorf("after %v: %v", after, err)
		}
	}
	var bad *licorne.InvalidError
	if err := r.client.Checkpoint("k1", time.Unix(-5, 0)); !errors.As(err, &bad) || bad.Field != "at" {
		t.Errorf("a checkpoint before 1970: %v", err)
	}
	if err := r.client.Close(t.Context(), false); !errors.Is(err, licorne.ErrNotTold) {
		t.Fatal(err)
	}
	for _, err := range []error{r.client.ReadyToStop("k1", 0), r.client.Checkpoint("k1", time.Unix(5, 0))} {
		if !errors.Is(err, licorne.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// A replay has the last checkpoint of an allocation, from any source. A pending ask has none, even if it was
// allocated before.
func TestCheckpointsAreReplayed(t *testing.T) {
	server, r, stream := told(t)
	r.must(r.client.Checkpoint("k1", time.Unix(100, 0)))
	expectLines(t, checkpoints(stream.next()), "k1 n1 100")
	larger := allocation("k2", "n1")
	larger.ResourcePerAlloc = amounts(200)
	r.saved(licorne.TagCheckpoint, "200", allocation("k1", "n1"), larger)
	r.saved(licorne.TagCheckpoint, "300", allocation("k3", "n1"))
	r.saved(licorne.TagCheckpoint, "400", ask("k5"))
	r.must(r.client.Checkpoint("k6", time.Unix(500, 0)))
	r.terminate("k3", 5)
	begin := time.Now().Unix()
	r.saved(licorne.TagLostWork, "60", allocation("k4", "n1"))
	end := time.Now().Unix()
	stream.cut()
	_, replayed := server.register(2, 1)
	lines := checkpoints(replayed...)
	expectLines(t, lines[:2], "k1 n1 200", "k2 n1 200")
	expectLines(t, lines[3:], "k3  ", "k5  ", "k6  ", "k7  ", "k8  ")
	var at int64
	if _, err := fmt.Sscanf(lines[2], "k4 n1 %d", &at); err != nil || at < begin-60 || at > end-60 {
		t.Fatalf("the replay has %q, said between %d and %d", lines[2], begin, end)
	}
}

// Invalid tags of checkpoints are refused by the client: the server would refuse the allocation in each
// replay.
func TestBadCheckpointsAreRefused(t *testing.T) {
	r := newRM(t, "127.0.0.1:1")
	for tag, values := range map[string][]string{
		licorne.TagCheckpoint: {"", "0", "-5", "+5", "1.5", "12345678901"},
		licorne.TagLostWork:   {"", "-5", "1m", "12345678901"},
	} {
		for _, value := range values {
			item := allocation("k1", "n1")
			item.AllocationTags = map[string]string{tag: value}
			var bad *licorne.InvalidError
			err := r.client.UpdateAllocations(&si.AllocationRequest{Allocations: []*si.Allocation{item}})
			wanted := "allocations[0].allocationTags[" + tag + "]"
			if !errors.As(err, &bad) || bad.Field != wanted || bad.Value != strconv.Quote(value) {
				t.Errorf("%s: %q: %v", tag, value, err)
			}
		}
	}
	r.saved(licorne.TagLostWork, "0", allocation("k1", "n1"))
	r.saved(licorne.TagCheckpoint, "9999999999", allocation("k2", "n1"))
	if stats := r.client.Stats(); stats.Allocations != 2 {
		t.Fatalf("stats: %+v", stats)
	}
}

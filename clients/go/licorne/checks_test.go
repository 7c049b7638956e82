package licorne_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// judging makes an RM answer predicate checks with a function.
func judging(inOrder bool, check func(*licornev1.PredicateCheck) map[string]string) options {
	return func(config *licorne.Config, handlers *licorne.Handlers) {
		config.Predicates = &licorne.PredicateOptions{InOrder: inOrder}
		handlers.Check = check
	}
}

func check(id uint64, key string, nodes ...string) *licornev1.PredicateCheck {
	return &licornev1.PredicateCheck{
		Id: id, AllocationKey: key, ApplicationId: "a1", Allocate: true, NodeIds: nodes, DeadlineMilliseconds: 60_000,
	}
}

// answers reads numbered messages until so many checks are answered; each answer is its id and the
// refused nodes.
func (s *scriptedStream) answers(count int) []string {
	s.t.Helper()
	var lines []string
	for len(lines) < count {
		for _, answer := range s.next().GetPredicateAnswers().GetAnswers() {
			line := fmt.Sprint(answer.GetId())
			for _, refused := range answer.GetRefused() {
				line += fmt.Sprintf(" %s: %s", refused.GetNodeId(), refused.GetReason())
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// Checks are decided and answered one at a time, in the order of the server.
func TestChecksInOrder(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		t.Run(fmt.Sprintf("in_order=%v", inOrder), func(t *testing.T) {
			server := serve(t)
			var judged []string
			r := run(t, server.address, judging(inOrder, func(c *licornev1.PredicateCheck) map[string]string {
				judged = append(judged, c.GetAllocationKey())
				return map[string]string{"n1": "no gpu", "elsewhere": "not asked"}
			}))
			stream, _ := server.register()
			r.ready()
			stream.checks(check(1, "k1", "n1", "n2"), check(2, "k2", "n2"))
			stream.checks(check(3, "k3", "n1"))
			if got := stream.answers(3); !slices.Equal(got, []string{"1 n1: no gpu", "2", "3 n1: no gpu"}) {
				t.Fatalf("answers: %q", got)
			}
			if !slices.Equal(judged, []string{"k1", "k2", "k3"}) {
				t.Fatalf("judged: %q", judged)
			}
		})
	}
}

// With InOrder, Check is called after the handlers of all earlier responses.
func TestCheckSeesWhatCameBefore(t *testing.T) {
	server := serve(t)
	var r *rm
	r = newRM(t, server.address, judging(true, func(c *licornev1.PredicateCheck) map[string]string {
		r.tell("check %s", c.GetAllocationKey())
		return nil
	}))
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.asks(ask("k1"), ask("k2"))
	r.start()
	stream, _ := server.register()
	stream.allocations(fresh(allocation("k1", "n1")))
	stream.checks(check(1, "k2", "n1"))
	stream.allocations(fresh(allocation("k2", "n1")))
	stream.answers(1)
	r.expect("k1 on n1", "check k2", "k2 on n1")
}

// Answers are sent before all other queued requests.
func TestAnswersFirst(t *testing.T) {
	server := serve(t)
	r := run(t, server.address, judging(false, func(*licornev1.PredicateCheck) map[string]string { return nil }))
	stream, _ := server.register()
	r.ready()
	blockWriter(t, r)
	r.asks(ask("k1"))
	stream.checks(check(1, "k1", "n1"), check(2, "k1", "n2"))
	await(t, "both are judged", func() bool { return r.client.Stats().Checks == 2 })
	stream.next()
	stream.next()
	if got := stream.answers(2); len(got) != 2 {
		t.Fatalf("answers: %q", got)
	}
	expectSaid(t, []*licornev1.UpdateRequest{stream.next()}, "ask k1")
}

// An answer that was not sent on a broken stream is sent on the next one, unless the session has ended.
func TestAnswersAfterALoss(t *testing.T) {
	server := serve(t)
	asked, may := make(chan string, 8), make(chan struct{})
	r := run(t, server.address, judging(false, func(c *licornev1.PredicateCheck) map[string]string {
		asked <- c.GetAllocationKey()
		<-may
		return nil
	}))
	first, _ := server.register()
	r.ready()
	first.checks(check(1, "k1", "n1"))
	<-asked
	first.awaitAcknowledged()
	first.cut()
	second := server.resume(first, first.processed)
	may <- struct{}{}
	if got := second.answers(1); got[0] != "1" {
		t.Fatalf("answers: %q", got)
	}
	second.checks(check(2, "k2", "n1"), check(3, "k3", "n1"))
	<-asked
	second.cut()
	third, _ := server.register(2, 1)
	close(may)
	third.checks(check(1, "k4", "n1"))
	if got := third.answers(1); got[0] != "1" {
		t.Fatalf("answers: %q", got)
	}
	if key := <-asked; key != "k4" {
		t.Fatalf("%s was judged, whose session has ended", key)
	}
}

// Dropped receives a check during which a new session began: its answer was dropped, and the replay lacks its
// assumption. It does not receive a check whose answer is sent on the next stream.
func TestDropped(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		t.Run(fmt.Sprintf("in_order=%v", inOrder), func(t *testing.T) {
			server := serve(t)
			var r *rm
			asked, may := make(chan string, 8), make(chan struct{})
			r = newRM(t, server.address, judging(inOrder, func(c *licornev1.PredicateCheck) map[string]string {
				asked <- c.GetAllocationKey()
				<-may
				r.client.Assume(c.GetAllocationKey(), c.GetNodeIds()[0])
				return nil
			}), func(_ *licorne.Config, handlers *licorne.Handlers) {
				handlers.Dropped = func(c *licornev1.PredicateCheck) { r.tell("%s dropped", c.GetAllocationKey()) }
			})
			r.nodes(node("n1", si.NodeInfo_CREATE))
			r.asks(ask("k1"), ask("k2"))
			r.start()
			first, _ := server.register()
			first.checks(check(1, "k1", "n1"))
			<-asked
			first.cut()
			second := server.resume(first, first.processed)
			may <- struct{}{}
			second.answers(1)
			second.checks(check(2, "k2", "n1"))
			<-asked
			second.cut()
			_, replayed := server.register(2, 1)
			expectSaid(t, replayed, "CREATE n1", "ask k1 n1", "ask k2", "end 1 0 2")
			may <- struct{}{}
			r.expect("k2 dropped")
		})
	}
}

// A check that would begin after its deadline is skipped and counted.
func TestLateChecks(t *testing.T) {
	server := serve(t)
	asked, may := make(chan string, 8), make(chan struct{})
	r := run(t, server.address, judging(false, func(c *licornev1.PredicateCheck) map[string]string {
		asked <- c.GetAllocationKey()
		<-may
		return nil
	}))
	stream, _ := server.register()
	r.ready()
	late := check(2, "late", "n1")
	late.DeadlineMilliseconds = 0
	stream.checks(check(1, "k1", "n1"), late, check(3, "k3", "n1"))
	<-asked
	close(may)
	if got := stream.answers(2); !slices.Equal(got, []string{"1", "3"}) {
		t.Fatalf("answers: %q", got)
	}
	if stats := r.client.Stats(); stats.Checks != 3 || stats.Unanswered != 1 {
		t.Fatalf("stats: %+v", stats)
	}
}

// Any reason is sent in valid UTF-8, and shortened.
func TestReasons(t *testing.T) {
	server := serve(t)
	r := run(t, server.address, judging(false, func(*licornev1.PredicateCheck) map[string]string {
		return map[string]string{"n1": "bad \xff", "n2": strings.Repeat("ä", 1000)}
	}))
	stream, _ := server.register()
	r.ready()
	stream.checks(check(1, "k1", "n1", "n2"))
	if got := stream.answers(1)[0]; got != "1 n1: bad \uFFFD n2: "+strings.Repeat("ä", 256) {
		t.Fatalf("answer: %q", got)
	}
}

// Unsolicited messages of the server reach their handlers, and a state dump is answered.
func TestCallbacks(t *testing.T) {
	server := serve(t)
	var r *rm
	dumps := make(chan error, 2)
	dumps <- nil
	dumps <- errors.New("out of order")
	r = newRM(t, server.address, func(_ *licorne.Config, handlers *licorne.Handlers) {
		handlers.ContainerStates = func(states []*si.UpdateContainerSchedulingStateRequest) {
			r.tell("%s: %s", states[0].GetAllocationKey(), states[0].GetReason())
		}
		handlers.Events = func(firstID uint64, records []*si.EventRecord) { r.tell("%d records from %d", len(records), firstID) }
		handlers.StateDump = func() (string, error) { return `{"pods": 7}`, <-dumps }
	})
	r.start()
	stream, _ := server.register()
	r.ready()
	stream.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_ContainerStates{
		ContainerStates: &licornev1.ContainerStates{States: []*si.UpdateContainerSchedulingStateRequest{
			{AllocationKey: "k1", Reason: "no node"},
		}},
	}})
	stream.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_Events{
		Events: &licornev1.Events{FirstId: 5, Records: []*si.EventRecord{{}, {}}},
	}})
	r.expect("k1: no node", "2 records from 5")
	for id, wanted := range []string{`{"pods": 7}`, "out of order"} {
		stream.wantDump(uint64(id))
		dump := stream.next().GetStateDump()
		if dump.GetId() != uint64(id) || dump.GetJson()+dump.GetError() != wanted {
			t.Fatalf("state dump: %v", dump)
		}
	}
}

func (s *scriptedStream) wantDump(id uint64) {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_StateDumpWanted{
		StateDumpWanted: &licornev1.StateDumpWanted{Id: id},
	}})
}

// State dumps are made one at a time, in the order of the requests, and concurrently with checks. A request
// of an older session is skipped.
func TestStateDumpsInTurn(t *testing.T) {
	server := serve(t)
	var r *rm
	begun, may := make(chan struct{}, 8), make(chan struct{})
	r = newRM(t, server.address, judging(true, func(*licornev1.PredicateCheck) map[string]string { return nil }),
		func(_ *licorne.Config, handlers *licorne.Handlers) {
			handlers.StateDump = func() (string, error) {
				r.tell("begun")
				begun <- struct{}{}
				<-may
				r.tell("done")
				return "{}", nil
			}
		})
	r.start()
	first, _ := server.register()
	r.ready()
	first.wantDump(1)
	first.wantDump(2)
	<-begun
	first.checks(check(1, "k1", "n1"))
	first.answers(1)
	may <- struct{}{}
	<-begun
	first.wantDump(3)
	first.checks(check(2, "k2", "n1"))
	if dump := first.next().GetStateDump(); dump.GetId() != 1 {
		t.Fatalf("state dump: %v", dump)
	}
	first.answers(1)
	first.cut()
	second, _ := server.register(2, 1)
	second.wantDump(1)
	may <- struct{}{}
	may <- struct{}{}
	if dump := second.next().GetStateDump(); dump.GetId() != 1 {
		t.Fatalf("state dump: %v", dump)
	}
	r.expect("begun", "done", "begun", "done", "begun", "done")
}

// A slow handler stops the client from reading, but a handler's own call that waits for the outgoing queue
// returns.
func TestSlowHandler(t *testing.T) {
	server := serve(t)
	var r *rm
	handling, may := make(chan struct{}, 1), make(chan struct{})
	r = newRM(t, server.address, func(config *licorne.Config, handlers *licorne.Handlers) {
		config.Limits.IncomingItems, config.Limits.OutgoingBytes = 5, 1
		handlers.Nodes = func(*si.NodeResponse) {
			handling <- struct{}{}
			<-may
			for i := range 4 {
				r.asks(largeAsk(fmt.Sprintf("k%d", i)))
			}
			r.tell("handled")
		}
	})
	r.start()
	stream, _ := server.register()
	r.ready()
	stream.nodes(&si.NodeResponse{Rejected: []*si.RejectedNode{{NodeID: "n1"}}})
	<-handling
	for i := range 20 {
		stream.applications(&si.ApplicationResponse{Updated: []*si.UpdatedApplication{{ApplicationID: fmt.Sprintf("a%d", i)}}})
	}
	await(t, "the inbox is full", func() bool { return r.client.Stats().IncomingItems >= 5 })
	if items := r.client.Stats().IncomingItems; items > 10 {
		t.Fatalf("%d items wait", items)
	}
	close(may)
	// The server does not read before the client has read everything.
	await(t, "all is read", func() bool { return r.client.Stats().Received == 22 })
	for items := 0; items < 4; {
		items += len(stream.next().GetAllocations().GetAllocations())
	}
	r.expect("handled")
}

package licorne_test

import (
	"fmt"
	"slices"
	"testing"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// judgingVictims makes an RM answer preemption checks.
func judgingVictims(judge func(*licornev1.PreemptionCheck) map[string]int) options {
	return func(_ *licorne.Config, handlers *licorne.Handlers) { handlers.JudgeVictims = judge }
}

// victims returns a preemption check for k1 with the nodes n1, n2 and so on, each with three victims and its
// own start index.
func victims(id uint64, starts ...int32) *licornev1.PreemptionCheck {
	check := &licornev1.PreemptionCheck{Id: id, AllocationKey: "k1", ApplicationId: "a1", DeadlineMilliseconds: 60_000}
	for i, start := range starts {
		node := &licornev1.NodeVictims{NodeId: fmt.Sprintf("n%d", i+1), StartIndex: start}
		for n := range 3 {
			node.Victims = append(node.Victims, &licornev1.Victim{ApplicationId: "a2", AllocationKey: fmt.Sprintf("v%d", n)})
		}
		check.Nodes = append(check.Nodes, node)
	}
	return check
}

func (s *scriptedStream) preemptionChecks(checks ...*licornev1.PreemptionCheck) {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_PreemptionChecks{
		PreemptionChecks: &licornev1.PreemptionChecks{Checks: checks},
	}})
}

// needs reads a message that answers preemption checks; each answer is its id, and the nodes with the
// position of the last victim.
func (s *scriptedStream) needs() []string {
	s.t.Helper()
	var lines []string
	for _, answer := range s.next().GetPreemptionAnswers().GetAnswers() {
		line := fmt.Sprint(answer.GetId())
		for _, need := range answer.GetNodes() {
			line += fmt.Sprintf(" %s:%d", need.GetNodeId(), need.GetIndex())
		}
		lines = append(lines, line)
	}
	return lines
}

func acceptAll(*licornev1.PredicateCheck) map[string]string { return nil }

// The hello requests preemption checks. The answer has the function's nodes with the last victim to be
// stopped, if the check allows that index; all other nodes are refused.
func TestVictimsAreJudged(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		t.Run(fmt.Sprintf("in_order=%v", inOrder), func(t *testing.T) {
			server := serve(t)
			r := run(t, server.address, judging(inOrder, acceptAll),
				judgingVictims(func(*licornev1.PreemptionCheck) map[string]int {
					return map[string]int{"n1": 2, "n2": -1, "n4": 0, "n5": 3, "elsewhere": 1}
				}))
			stream := server.accept()
			if !stream.hello.GetCallbacks().GetPredicates().GetJudgesVictims() {
				t.Fatalf("the hello says %v", stream.hello.GetCallbacks())
			}
			stream.register()
			r.ready()
			stream.preemptionChecks(victims(1, 0, -1, 0, 1, 0))
			if got := stream.needs(); !slices.Equal(got, []string{"1 n1:2 n2:-1"}) {
				t.Fatalf("answers: %q", got)
			}
		})
	}
}

// Without the handler the hello requests no preemption checks.
func TestVictimsAreNotJudged(t *testing.T) {
	server := serve(t)
	run(t, server.address, judging(false, acceptAll))
	if callbacks := server.accept().hello.GetCallbacks(); callbacks.GetPredicates().GetJudgesVictims() {
		t.Fatalf("the hello says %v", callbacks)
	}
	_, err := licorne.New(licorne.Config{Target: server.address, RMID: "rm1"}, licorne.Handlers{
		JudgeVictims: func(*licornev1.PreemptionCheck) map[string]int { return nil },
	})
	if !isA[*licorne.InvalidError](err) {
		t.Fatalf("victims without predicates: %v", err)
	}
}

// Checks of both kinds are decided and answered in the order of the server. A check after its deadline is
// skipped and counted.
func TestChecksOfBothKinds(t *testing.T) {
	server := serve(t)
	var judged []string
	r := run(t, server.address, judging(false, func(c *licornev1.PredicateCheck) map[string]string {
		judged = append(judged, fmt.Sprint(c.GetId()))
		return nil
	}), judgingVictims(func(c *licornev1.PreemptionCheck) map[string]int {
		judged = append(judged, fmt.Sprint(c.GetId()))
		return nil
	}))
	stream, _ := server.register()
	r.ready()
	blockWriter(t, r)
	late := victims(5, 0)
	late.DeadlineMilliseconds = 0
	stream.checks(check(1, "k1", "n1"), check(2, "k2", "n1"))
	stream.preemptionChecks(victims(3, 0), victims(4, 0), late)
	stream.checks(check(6, "k3", "n1"))
	await(t, "all have come up", func() bool { return r.client.Stats().Checks == 6 })
	stream.next()
	stream.next()
	got := append(stream.answers(2), stream.needs()...)
	got = append(got, stream.answers(1)...)
	if want := []string{"1", "2", "3", "4", "6"}; !slices.Equal(got, want) || !slices.Equal(judged, want) {
		t.Fatalf("judged %q, answered %q", judged, got)
	}
	if stats := r.client.Stats(); stats.Unanswered != 1 {
		t.Fatalf("stats: %+v", stats)
	}
}

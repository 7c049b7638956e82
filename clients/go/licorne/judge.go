package licorne

import (
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"licorne.dev/clients/go/licornev1"
)

// maxReason is how many characters of a reason are sent. Without a bound the reasons for many nodes
// might not fit a message.
const maxReason = 256

// due is a check of either kind that waits to be judged.
type due struct {
	at       stamp
	deadline time.Time
	// One of the two is set.
	predicates *licornev1.PredicateCheck
	preemption *licornev1.PreemptionCheck
}

// judge answers the checks of both kinds, one at a time in the order in which the server asked.
type judge struct {
	state *state
	check func(*licornev1.PredicateCheck) map[string]string
	// victims answers preemption checks; nil: the server was told that nobody does.
	victims func(*licornev1.PreemptionCheck) map[string]int
	// dropped is told of a check whose answer came after the end of its session; nil: nobody is.
	dropped func(*licornev1.PredicateCheck)

	mu      sync.Mutex
	changed *sync.Cond
	waiting []due
	closed  bool
}

func newJudge(s *state, handlers Handlers) *judge {
	j := &judge{state: s, check: handlers.Check, victims: handlers.JudgeVictims, dropped: handlers.Dropped}
	j.changed = sync.NewCond(&j.mu)
	return j
}

// predicateDues are the checks of one response of that session, which has arrived just now.
func predicateDues(at stamp, checks *licornev1.PredicateChecks) []due {
	list := make([]due, len(checks.GetChecks()))
	for i, check := range checks.GetChecks() {
		list[i] = due{at: at, deadline: after(check.GetDeadlineMilliseconds()), predicates: check}
	}
	return list
}

// preemptionDues are to preemption checks what predicateDues are to predicate checks.
func preemptionDues(at stamp, checks *licornev1.PreemptionChecks) []due {
	list := make([]due, len(checks.GetChecks()))
	for i, check := range checks.GetChecks() {
		list[i] = due{at: at, deadline: after(check.GetDeadlineMilliseconds()), preemption: check}
	}
	return list
}

// after is when so many milliseconds from now have passed.
func after(milliseconds uint32) time.Time {
	return time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
}

// put lets checks wait for `run`.
func (j *judge) put(list []due) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = append(j.waiting, list...)
	j.changed.Signal()
}

// close makes `run` end after the check that it judges now.
func (j *judge) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.changed.Signal()
}

// run judges what waits, until the end.
func (j *judge) run() {
	for {
		j.mu.Lock()
		for len(j.waiting) == 0 && !j.closed {
			j.changed.Wait()
		}
		list := j.waiting
		j.waiting = nil
		closed := j.closed
		j.mu.Unlock()
		if closed {
			return
		}
		j.judge(list)
	}
}

// judge judges checks one after the other, and queues the answers. Checks of a session that has ended
// are left out, and so are those whose deadline has passed: the server has decided them itself.
func (j *judge) judge(list []due) {
	for _, next := range list {
		late := time.Now().After(next.deadline)
		if !j.state.begins(next.at, late) {
			continue
		}
		if next.preemption != nil {
			answer := needsOf(next.preemption, j.victims(next.preemption), j.state.log)
			j.state.answer(next.at, queuedAnswer{preemption: answer, size: proto.Size(answer)})
			continue
		}
		answer := answerOf(next.predicates, j.check(next.predicates))
		told := j.state.answer(next.at, queuedAnswer{predicates: answer, size: proto.Size(answer)})
		if !told && j.dropped != nil {
			j.dropped(next.predicates)
		}
	}
}

// begins counts a check that comes up, and says whether it is to be judged.
func (s *state) begins(at stamp, late bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at != s.session.stamp || s.failure != nil {
		return false
	}
	s.stats.Checks++
	if late {
		s.stats.Unanswered++
	}
	return !late
}

// answerOf is the answer to a predicate check. Refusals of other nodes than its own are left out.
func answerOf(check *licornev1.PredicateCheck, refused map[string]string) *licornev1.PredicateAnswer {
	answer := &licornev1.PredicateAnswer{Id: check.GetId()}
	if len(refused) == 0 {
		return answer
	}
	for _, node := range check.GetNodeIds() {
		if reason, isRefused := refused[node]; isRefused {
			answer.Refused = append(answer.Refused, &licornev1.NodeRefusal{NodeId: node, Reason: sendable(reason)})
		}
	}
	return answer
}

// needsOf is the answer to a preemption check. Other nodes than its own are left out. A node with an
// index that the check does not allow is left out as well, and so refused: what the server would make
// of it is not what the RM meant.
func needsOf(check *licornev1.PreemptionCheck, needs map[string]int, log *slog.Logger) *licornev1.PreemptionAnswer {
	answer := &licornev1.PreemptionAnswer{Id: check.GetId()}
	for _, node := range check.GetNodes() {
		index, fits := needs[node.GetNodeId()]
		if !fits {
			continue
		}
		if start := int(node.GetStartIndex()); index < start || index >= len(node.GetVictims()) {
			log.Error("a node is refused: the index of its last victim is out of range",
				"allocationKey", check.GetAllocationKey(), "node", node.GetNodeId(),
				"index", index, "lowest", start, "victims", len(node.GetVictims()))
			continue
		}
		answer.Nodes = append(answer.Nodes, &licornev1.NodeNeed{NodeId: node.GetNodeId(), Index: int32(index)})
	}
	return answer
}

// sendable is a reason as it is sent: in UTF-8, and not too long.
func sendable(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if utf8.RuneCountInString(reason) > maxReason {
		reason = string([]rune(reason)[:maxReason])
	}
	return reason
}

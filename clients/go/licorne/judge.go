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

// maxReason is the maximum number of characters of a reason, so that the reasons for many nodes fit into a
// message.
const maxReason = 256

// due is a check of either kind that waits for the RM's functions.
type due struct {
	at       stamp
	deadline time.Time
	// Either predicates or preemption is set.
	predicates *licornev1.PredicateCheck
	preemption *licornev1.PreemptionCheck
}

// judge answers the checks of both kinds, one at a time, in the order of the server's requests.
type judge struct {
	state *state
	check func(*licornev1.PredicateCheck) map[string]string
	// victims answers preemption checks; nil if the RM does not answer them.
	victims func(*licornev1.PreemptionCheck) map[string]int
	// dropped receives a check whose answer was too late for its session; nil if the RM does not want it.
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

// predicateDues returns the predicate checks of a response that has just arrived.
func predicateDues(at stamp, checks *licornev1.PredicateChecks) []due {
	list := make([]due, len(checks.GetChecks()))
	for i, check := range checks.GetChecks() {
		list[i] = due{at: at, deadline: after(check.GetDeadlineMilliseconds()), predicates: check}
	}
	return list
}

// preemptionDues returns the preemption checks of a response that has just arrived.
func preemptionDues(at stamp, checks *licornev1.PreemptionChecks) []due {
	list := make([]due, len(checks.GetChecks()))
	for i, check := range checks.GetChecks() {
		list[i] = due{at: at, deadline: after(check.GetDeadlineMilliseconds()), preemption: check}
	}
	return list
}

// after returns the time in so many milliseconds.
func after(milliseconds uint32) time.Time {
	return time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
}

// put queues checks for run.
func (j *judge) put(list []due) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = append(j.waiting, list...)
	j.changed.Signal()
}

// close makes run end after the current check.
func (j *judge) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.changed.Signal()
}

// run answers queued checks until close.
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

// judge answers checks one after another, and queues the answers. Checks of an ended session are skipped, and
// also checks after their deadline, because the server has already decided them.
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

// begins counts a check, and returns whether it should be answered.
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

// answerOf returns the answer to a predicate check, without refusals of nodes that are not in the check.
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

// needsOf returns the answer to a preemption check, without nodes that are not in the check. A node with an
// index out of range is left out too, and so refused: the server would misunderstand it.
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

// sendable returns a reason in valid UTF-8, cut to maxReason characters.
func sendable(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if utf8.RuneCountInString(reason) > maxReason {
		reason = string([]rune(reason)[:maxReason])
	}
	return reason
}

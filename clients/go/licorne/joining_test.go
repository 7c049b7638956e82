package licorne

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/proto"

	"licorne.dev/clients/go/licornev1"
)

// joiningCases has the cases of joining for clients in all languages.
type joiningCases struct {
	Cases []struct {
		Name     string     `json:"name"`
		MaxItems int        `json:"max_items"`
		Items    []string   `json:"items"`
		Requests [][]string `json:"requests"`
	} `json:"cases"`
}

// put queues an item, given as in a case.
func (p *packer) put(item string) {
	words := append(strings.Fields(item), "")
	name := words[1]
	switch words[0] {
	case "node":
		node := &si.NodeInfo{NodeID: name, Action: si.NodeInfo_ActionFromRM(si.NodeInfo_ActionFromRM_value[words[2]])}
		p.node(node, proto.Size(node))
	case "submit":
		application := &si.AddApplicationRequest{ApplicationID: name}
		p.newApplication(application, proto.Size(application))
	case "remove":
		application := &si.RemoveApplicationRequest{ApplicationID: name}
		p.removedApplication(application, proto.Size(application))
	case "ask":
		size, _ := strconv.Atoi(words[2])
		ask := &si.Allocation{AllocationKey: name, TaskGroupName: strings.Repeat("x", size)}
		p.allocation(ask, proto.Size(ask))
	case "release":
		release := &si.AllocationRelease{AllocationKey: name}
		p.release(release, proto.Size(release))
	default:
		answer := &licornev1.NoticeAnswer{AllocationKey: name}
		p.noticeAnswer(answer, proto.Size(answer))
	}
}

// itemsOf returns the items of a request as in a case, additions first.
func itemsOf(request *licornev1.UpdateRequest) []string {
	var items []string
	for _, node := range request.GetNodes().GetNodes() {
		items = append(items, "node "+node.GetNodeID()+" "+node.GetAction().String())
	}
	for _, application := range request.GetApplications().GetNew() {
		items = append(items, "submit "+application.GetApplicationID())
	}
	for _, application := range request.GetApplications().GetRemove() {
		items = append(items, "remove "+application.GetApplicationID())
	}
	for _, ask := range request.GetAllocations().GetAllocations() {
		item := "ask " + ask.GetAllocationKey()
		if size := len(ask.GetTaskGroupName()); size > 0 {
			item += fmt.Sprint(" ", size)
		}
		items = append(items, item)
	}
	for _, release := range request.GetAllocations().GetReleases().GetAllocationsToRelease() {
		items = append(items, "release "+release.GetAllocationKey())
	}
	for _, answer := range request.GetNoticeAnswers().GetAnswers() {
		items = append(items, "answer "+answer.GetAllocationKey())
	}
	return items
}

// packed returns the items of each request that a packer makes from a sequence.
func packed(maxItems int, items []string) ([][]string, []*batch) {
	queue := packer{maxItems: maxItems}
	for _, item := range items {
		queue.put(item)
	}
	var requests [][]string
	var batches []*batch
	for b := queue.take(); b != nil; b = queue.take() {
		requests, batches = append(requests, itemsOf(b.request)), append(batches, b)
	}
	return requests, batches
}

// TestJoiningCases compares the requests of every case.
func TestJoiningCases(t *testing.T) {
	text, err := os.ReadFile("../../conformance/joining.json")
	if err != nil {
		t.Fatal(err)
	}
	var all joiningCases
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all.Cases {
		t.Run(one.Name, func(t *testing.T) {
			requests, _ := packed(one.MaxItems, one.Items)
			if !slices.EqualFunc(requests, one.Requests, slices.Equal) {
				t.Fatalf("the requests are\n%q\nand not\n%q", requests, one.Requests)
			}
		})
	}
}

// fuzzedItems has the items for the bytes of a fuzzed sequence.
var fuzzedItems = []string{
	"ask k1", "ask k2", "release k1", "release k2", "ask k3 200000", "ask k4 600000", "submit a1", "remove a1",
	"node n1 CREATE", "node n1 DECOMISSION", "answer k1",
}

// FuzzJoining checks that the order of any sequence is preserved: the requests, with additions first, have
// its items in order, and no request exceeds the limits.
func FuzzJoining(f *testing.F) {
	f.Add(uint8(3), []byte{0, 1, 2, 0, 6, 0, 7, 6, 8, 9, 3, 10, 4, 4, 4, 5, 0})
	f.Add(uint8(0), []byte{0, 2, 1, 3, 6, 7, 0, 0, 0})
	f.Fuzz(func(t *testing.T, most uint8, sequence []byte) {
		var items []string
		for _, one := range sequence[:min(len(sequence), 60)] {
			items = append(items, fuzzedItems[int(one)%len(fuzzedItems)])
		}
		maxItems := int(most) + 1
		requests, batches := packed(maxItems, items)
		if read := slices.Concat(requests...); !slices.Equal(read, items) {
			t.Fatalf("of %q the server reads %q", items, read)
		}
		for i, b := range batches {
			if b.items != len(requests[i]) || b.items > maxItems || b.items > 1 && b.bytes > maxMessageBytes {
				t.Fatalf("request %d has %d items of %d bytes: %q", i, b.items, b.bytes, requests[i])
			}
		}
	})
}

// ages is a window longer than any test.
const ages = time.Hour

// writing returns a stream without a writer, which the test replaces, with a window of this length.
func writing(window time.Duration, outgoingBytes int) *stream {
	config := Config{RMID: "rm1", JoinWindow: &window, Limits: Limits{OutgoingBytes: outgoingBytes, ResendBytes: 1 << 20}}
	s := newState(config, slog.New(slog.NewTextHandler(io.Discard, nil)))
	s.out.begin(1000)
	return newStream(s, nil, nil, nil, nil)
}

// ask queues so many asks like a caller, and returns whether the writer was woken.
func (st *stream) ask(count int) bool {
	select {
	case <-st.state.wake:
	default:
	}
	_ = st.state.update(func(queue *packer) {
		for n := range count {
			queue.put(fmt.Sprintf("ask k%d", n))
		}
	})
	return len(st.state.wake) > 0
}

// sends returns the number of asks that the writer sends next; 0 if it holds them, or has none.
func (st *stream) sends() int {
	request, _, _ := st.next(false)
	return len(request.GetAllocations().GetAllocations())
}

// TestOneAskAtATime checks that an RM that asks, waits, releases and asks again has no delayed request.
func TestOneAskAtATime(t *testing.T) {
	st := writing(ages, 1<<20)
	for range 100 {
		for range 2 {
			if woken := st.ask(1); !woken || st.sends() != 1 {
				t.Fatal("an ask was not sent at once")
			}
		}
		st.state.session.dropProcessed(st.state.session.sent)
	}
}

// TestLoadBeginsAWindow checks that after a request of many items, or many unprocessed ones, the next request
// is held until the end of the window. Items that arrive meanwhile join it, and do not wake the writer.
func TestLoadBeginsAWindow(t *testing.T) {
	for name, load := range map[string]func(*stream){
		"items": func(st *stream) { st.ask(busy); st.sends() },
		"unprocessed": func(st *stream) {
			for range busy + 1 {
				st.ask(1)
				st.sends()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := writing(ages, 1<<20)
			load(st)
			if !st.ask(1) {
				t.Fatal("nobody told the writer of the first item")
			}
			if st.sends() != 0 {
				t.Fatal("the first item was sent at once")
			}
			if st.ask(2) {
				t.Fatal("an item that may wait wakes the writer")
			}
			out := &st.state.out
			end := out.window.until
			if left := out.hold(end.Add(-time.Millisecond)); left != time.Millisecond {
				t.Fatalf("%v are left of a millisecond", left)
			}
			if left := out.hold(end); left != 0 {
				t.Fatalf("%v are left at the end of the window", left)
			}
			if b := out.next(0, end); b == nil || b.items != 3 {
				t.Fatalf("%v leaves at the end of the window", b)
			}
		})
	}
}

// TestNotHeld checks that a request that cannot be joined, or for which a caller waits, is sent at once.
func TestNotHeld(t *testing.T) {
	for name, change := range map[string]func(*stream){
		"full":                  func(st *stream) { st.state.out.packer.maxItems = 1 },
		"another kind behind":   func(st *stream) { st.state.out.packer.put("node n1 CREATE") },
		"another size behind":   func(st *stream) { st.state.out.packer.put("ask k1 600000") },
		"a removal in between":  func(st *stream) { st.state.out.packer.put("release k1"); st.ask(1) },
		"a caller waits":        func(st *stream) { st.state.out.limit = 1 },
		"the client is leaving": func(st *stream) { st.state.leave(false) },
		"the server drains":     func(st *stream) { st.drained.Store(5); st.state.out.seal() },
		"no window":             func(st *stream) { st.state.out.window.until = time.Now() },
	} {
		t.Run(name, func(t *testing.T) {
			st := writing(ages, 1<<20)
			st.ask(busy)
			st.sends()
			st.ask(1)
			if st.sends() != 0 {
				t.Fatal("the item is not held")
			}
			change(st)
			if st.state.out.held() && name != "no window" {
				t.Error("nobody wakes the writer")
			}
			if sent := st.sends(); sent == 0 {
				t.Fatal("the item is held")
			}
		})
	}
}

// TestAnswersPassHeldItems checks that answers to checks and dumps are sent at once, before held items.
func TestAnswersPassHeldItems(t *testing.T) {
	st := writing(ages, 1<<20)
	st.ask(busy)
	st.sends()
	st.ask(1)
	st.sends()
	st.state.answer(stamp{}, queuedAnswer{predicates: &licornev1.PredicateAnswer{Id: 1}})
	st.state.dumped(stamp{}, &licornev1.StateDump{Id: 1})
	if request, _, _ := st.next(false); request.GetPredicateAnswers() == nil {
		t.Fatalf("%v is sent before the answer", request)
	}
	if request, _, _ := st.next(false); request.GetStateDump() == nil {
		t.Fatalf("%v is sent before the dump", request)
	}
	if request, _, hold := st.next(false); request != nil || hold == 0 {
		t.Fatalf("%v is sent within the window", request)
	}
}

// TestNoWindow checks that without a window everything is sent at once, even under load.
func TestNoWindow(t *testing.T) {
	st := writing(0, 1<<20)
	for range 3 * busy {
		if woken := st.ask(1); !woken || st.sends() != 1 {
			t.Fatal("an ask was not sent at once")
		}
	}
}

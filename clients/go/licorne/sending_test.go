package licorne_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc/codes"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// largeAsk is one of 300 KiB: no two of them share a message.
func largeAsk(key string) *si.Allocation {
	item := ask(key)
	item.AllocationTags = map[string]string{"filler": strings.Repeat("x", 300*1024)}
	return item
}

// blockWriter makes the client's writer wait for a server that reads nothing. Of its two messages the
// transport accepts only the first.
func blockWriter(t *testing.T, r *rm) {
	t.Helper()
	r.asks(largeAsk("large1"), largeAsk("large2"))
	await(t, "both are taken off the queue", func() bool { return r.client.Stats().OutgoingItems == 0 })
}

// Items that are queued while a message is written are sent as one message.
func TestBatching(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream, _ := server.register()
	r.ready()
	blockWriter(t, r)
	var calls sync.WaitGroup
	for i := range 900 {
		calls.Add(1)
		go func() {
			defer calls.Done()
			_ = r.client.UpdateAllocations(&si.AllocationRequest{Allocations: []*si.Allocation{ask(fmt.Sprintf("k%d", i))}})
		}()
	}
	calls.Wait()
	stream.next()
	stream.next()
	if items := len(stream.next().GetAllocations().GetAllocations()); items != 900 {
		t.Fatalf("%d asks came in one message, and not 900", items)
	}
}

// The order of calls is preserved: no addition joins a message with removals, and kinds do not overtake each
// other. No message has more items than the welcome allows.
func TestOrder(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream := server.accept()
	stream.welcome(&licornev1.Welcome{ResumeToken: "token", MaxItems: 3}, 0)
	stream.takeReplay()
	stream.replayComplete()
	r.ready()
	r.asks(ask("k1"), ask("k2"))
	r.release("k1")
	r.asks(ask("k3"))
	r.nodes(node("n1", si.NodeInfo_CREATE))
	r.submit(application("a1"))
	r.remove("a1")
	r.submit(application("a1"))
	r.asks(ask("k4"), ask("k5"), ask("k6"), ask("k7"))
	var lines []string
	for len(lines) < 12 {
		request := stream.next()
		inOne := said(request)
		if len(inOne) > 3 {
			t.Fatalf("a message has %d items", len(inOne))
		}
		lines = append(lines, inOne...)
	}
	wanted := "ask k1,ask k2,release k1,ask k3,CREATE n1,submit a1,remove a1,submit a1,ask k4,ask k5,ask k6,ask k7"
	if got := strings.Join(lines, ","); got != wanted {
		t.Fatalf("the server was told\n%s\nand not\n%s", got, wanted)
	}
}

// Held items are sent in order at the end of the window, even if nothing else happens.
func TestWindowEnds(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	stream, _ := server.register()
	r.ready()
	var wanted, got []string
	for i := range 30 {
		key := fmt.Sprintf("k%d", i)
		r.asks(ask(key))
		wanted = append(wanted, "ask "+key)
	}
	for len(got) < len(wanted) {
		got = append(got, said(stream.next())...)
	}
	if !slices.Equal(got, wanted) {
		t.Fatalf("the server was told\n%q\nand not\n%q", got, wanted)
	}
}

// A call waits while too much is queued, and returns when the server reads.
func TestBackPressure(t *testing.T) {
	server := serve(t)
	r := run(t, server.address, func(config *licorne.Config, _ *licorne.Handlers) { config.Limits.OutgoingBytes = 600 * 1024 })
	stream, _ := server.register()
	r.ready()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 8 {
			r.asks(largeAsk(fmt.Sprintf("k%d", i)))
		}
	}()
	await(t, "too much is queued", func() bool { return r.client.Stats().OutgoingBytes > 600*1024 })
	select {
	case <-done:
		t.Fatal("no call has waited")
	default:
	}
	for items := 0; items < 8; {
		items += len(stream.next().GetAllocations().GetAllocations())
	}
	<-done
}

// A call that waits for the queue returns the error that ends the client.
func TestBackPressureEnds(t *testing.T) {
	server := serve(t)
	r := run(t, server.address, func(config *licorne.Config, _ *licorne.Handlers) { config.Limits.OutgoingBytes = 1 })
	stream, _ := server.register()
	r.ready()
	result := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			large := largeAsk(fmt.Sprintf("k%d", i))
			err = r.client.UpdateAllocations(&si.AllocationRequest{Allocations: []*si.Allocation{large}})
		}
		result <- err
	}()
	await(t, "a call waits", func() bool { return r.client.Stats().OutgoingItems > 0 })
	stream.end(refusal(codes.Aborted, "newer", ""))
	select {
	case err := <-result:
		if !isA[*licorne.FencedError](err) {
			t.Fatalf("the call returned %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the call waits on")
	}
}

// Above the limit the queue is dropped while there is no stream. The session is then not resumed, even if the
// hello has requested it: a replay has all items.
func TestQueueGivenUp(t *testing.T) {
	server := serve(t)
	r := run(t, server.address, func(config *licorne.Config, _ *licorne.Handlers) { config.Limits.OutgoingBytes = 1000 })
	first, _ := server.register()
	r.ready()
	first.drain(5)
	expectSaid(t, []*licornev1.UpdateRequest{first.next()}, "goodbye false")
	first.end(nil)
	asking := server.accept()
	if asking.hello.GetResumeToken() != "token" {
		t.Fatal("the hello does not ask to resume")
	}
	for i := range 100 {
		r.asks(ask(fmt.Sprintf("k%d", i)))
	}
	asking.welcome(&licornev1.Welcome{Resumed: true, ResumeToken: "token"}, first.processed)
	second := server.accept()
	if second.hello.GetResumeToken() != "" {
		t.Fatal("the hello asks to resume")
	}
	second.stamp = [2]uint64{1, 2}
	replayed := second.register()
	if lines := said(replayed...); lines[len(lines)-1] != "end 0 0 100" {
		t.Fatalf("the replay ends with %s", lines[len(lines)-1])
	}
}

// If more than the retained requests are lost, a replay is needed.
func TestTooMuchToResend(t *testing.T) {
	server := serve(t)
	r := run(t, server.address, func(config *licorne.Config, _ *licorne.Handlers) { config.Limits.ResendBytes = 10 })
	first, _ := server.register()
	r.ready()
	r.asks(ask("k1"))
	first.next()
	first.cut()
	second, replayed := server.register(1, 2)
	if second.hello.GetResumeToken() != "" {
		t.Fatal("the hello asks to resume")
	}
	expectSaid(t, replayed, "ask k1", "end 0 0 1")
}

// invalidRequests are requests that can never be sent, each with what is wrong with it.
func invalidRequests() map[string]any {
	odd := ask("k\xff")
	large := ask("k1")
	large.AllocationTags = map[string]string{"filler": strings.Repeat("x", 6<<20)}
	allocations := func(items ...*si.Allocation) any { return &si.AllocationRequest{Allocations: items} }
	return map[string]any{
		"request is nil: it must be there":                                          (*si.NodeRequest)(nil),
		`rmID is "rm2": this is the client of RM "rm1"`:                             &si.NodeRequest{RmID: "rm2"},
		"nodes[0] is nil: it must be there":                                         &si.NodeRequest{Nodes: []*si.NodeInfo{nil}},
		`nodes[0].nodeID is "": a node must have an id`:                             &si.NodeRequest{Nodes: []*si.NodeInfo{{}}},
		`allocations[1] is "k\xff": it cannot be encoded`:                           allocations(ask("k1"), odd),
		`allocations[0] is "k1": it has 6291497 bytes, at most 6290432 can be sent`: allocations(large),
		`allocations[1].allocationKey is "": an ask must have a key`:                allocations(ask("k1"), &si.Allocation{}),
		`nodes[0].action is UNKNOWN_ACTION_FROM_RM: node "n1" must have an action that the server knows`: &si.NodeRequest{
			Nodes: []*si.NodeInfo{{NodeID: "n1"}},
		},
		`new[0].applicationID is "": an application must have an id`: &si.ApplicationRequest{
			New: []*si.AddApplicationRequest{{}},
		},
		`remove[0].applicationID is "": the removal of an application must name it`: &si.ApplicationRequest{
			Remove: []*si.RemoveApplicationRequest{{}},
		},
		`releases.allocationsToRelease[0].allocationKey is "": a release must name an allocation or an application`: &si.AllocationRequest{
			Allocations: []*si.Allocation{ask("k1")},
			Releases:    &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{{}}},
		},
	}
}

// An item that cannot be sent is refused with its field and value, and no part of the call is carried out.
// The Check methods refuse the same items, and store nothing.
func TestInvalidItems(t *testing.T) {
	client, err := licorne.New(licorne.Config{Target: "localhost:1", RMID: "rm1"}, licorne.Handlers{})
	if err != nil {
		t.Fatal(err)
	}
	for text, request := range invalidRequests() {
		for _, err := range refusedBy(client, request) {
			if !isA[*licorne.InvalidError](err) || !strings.HasPrefix(err.Error(), "licorne: "+text) {
				t.Errorf("%v\nand not\n%s", err, text)
			}
		}
	}
	good := client.CheckAllocations(&si.AllocationRequest{Allocations: []*si.Allocation{ask("k1")}})
	if stats := client.Stats(); good != nil || stats.Asks != 0 {
		t.Errorf("%d asks were noted, the check returned %v", stats.Asks, good)
	}
}

// refusedBy returns the errors of a Check method and of its Update method.
func refusedBy(client *licorne.Client, request any) []error {
	switch request := request.(type) {
	case *si.NodeRequest:
		return []error{client.CheckNodes(request), client.UpdateNodes(request)}
	case *si.ApplicationRequest:
		return []error{client.CheckApplications(request), client.UpdateApplications(request)}
	default:
		allocations := request.(*si.AllocationRequest)
		return []error{client.CheckAllocations(allocations), client.UpdateAllocations(allocations)}
	}
}

// The largest item that the server accepts is sent, alone in its message, also in every replay.
func TestLargestItem(t *testing.T) {
	server := serve(t)
	r := run(t, server.address)
	first, _ := server.register()
	r.ready()
	large := ask("k1")
	large.AllocationTags = map[string]string{"creationTime": "1", "filler": strings.Repeat("x", 6<<20-1200)}
	r.asks(ask("k0"), large, ask("k2"))
	for _, wanted := range []string{"ask k0", "ask k1", "ask k2"} {
		expectSaid(t, []*licornev1.UpdateRequest{first.next()}, wanted)
	}
	first.cut()
	_, replayed := server.register(2, 1)
	expectSaid(t, replayed, "ask k0", "ask k1", "ask k2", "end 0 0 3")
}

// The lists of a request are the caller's after the call.
func TestListsAreNotKept(t *testing.T) {
	server := serve(t)
	r := newRM(t, server.address)
	request := &si.AllocationRequest{Allocations: []*si.Allocation{ask("k1")}}
	r.must(r.client.UpdateAllocations(request))
	request.Allocations[0] = ask("k2")
	r.start()
	_, replayed := server.register()
	expectSaid(t, replayed, "ask k1", "end 0 0 1")
}

package schedulerapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"go.uber.org/goleak"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// No test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is the time limit for an expected event.
const patient = 20 * time.Second

// unread discards log messages.
var unread = slog.New(slog.DiscardHandler)

// script is a session without a server: it records all requests as texts.
type script struct {
	mu       sync.Mutex
	sent     []string
	requests []any // as they came
	assumed  map[string]string
	refuse   error // what the client has against the next requests
	configs  []string
	configOf func(queues string) error
	blocked  chan struct{} // calls wait until it is closed; nil: they do not
	queueing func()        // is called while nodes are queued, once
}

func (s *script) note(format string, args ...any) error {
	s.mu.Lock()
	blocked := s.blocked
	s.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, fmt.Sprintf(format, args...))
	return nil
}

func (s *script) keep(request any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
}

func (s *script) Run(ctx context.Context) error   { <-ctx.Done(); return nil }
func (s *script) Ready(ctx context.Context) error { return ctx.Err() }

func (s *script) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuse
}

func (s *script) CheckNodes(*si.NodeRequest) error               { return s.refusal() }
func (s *script) CheckApplications(*si.ApplicationRequest) error { return s.refusal() }
func (s *script) CheckAllocations(*si.AllocationRequest) error   { return s.refusal() }

func (s *script) UpdateNodes(request *si.NodeRequest) error {
	s.keep(request)
	if meanwhile := s.queueing; meanwhile != nil {
		s.queueing = nil
		meanwhile()
	}
	text := ""
	for _, node := range request.GetNodes() {
		text += " " + node.GetAction().String() + " " + node.GetNodeID()
	}
	return s.note("nodes%s", text)
}

func (s *script) UpdateApplications(request *si.ApplicationRequest) error {
	s.keep(request)
	return s.note("applications +%d -%d", len(request.GetNew()), len(request.GetRemove()))
}

func (s *script) UpdateAllocations(request *si.AllocationRequest) error {
	s.keep(request)
	for _, allocation := range request.GetAllocations() {
		text := "ask " + allocation.GetAllocationKey()
		if node := allocation.GetNodeID(); node != "" {
			text = "place " + allocation.GetAllocationKey() + " on " + node
		}
		if class := allocation.GetAllocationTags()[ClassTag]; class != "" {
			text += " of " + class
		}
		if err := s.note("%s", text); err != nil {
			return err
		}
	}
	for _, release := range request.GetReleases().GetAllocationsToRelease() {
		text := "release " + release.GetAllocationKey()
		if release.GetTerminationType() == si.TerminationType_PREEMPTED_BY_SCHEDULER {
			text = "confirm " + release.GetAllocationKey()
		}
		if err := s.note("%s", text); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) UpdateConfiguration(_ context.Context, queues string, _ map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configs = append(s.configs, queues)
	if s.configOf != nil {
		return s.configOf(queues)
	}
	return nil
}

func (s *script) Assume(key, node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assumed[key] = node
	return true
}

func (s *script) Close(context.Context, bool) error { return nil }

// take returns the requests since the last call.
func (s *script) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// fakeShim is a shim that records its callbacks as texts.
type fakeShim struct {
	mu      sync.Mutex
	heard   []string
	refuses func(key, node string) error
	hears   func(*si.AllocationResponse) // called without the lock
	// allocates is the reason to refuse every allocation, but no reservation; nil to accept.
	allocates error
	victims   func(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse
	dumps     string
	judged    []string
	overlaps  int
	busy      bool
}

func (f *fakeShim) enter() func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy {
		f.overlaps++
	}
	f.busy = true
	return func() {
		f.mu.Lock()
		f.busy = false
		f.mu.Unlock()
	}
}

func (f *fakeShim) hear(format string, args ...any) {
	f.mu.Lock()
	f.heard = append(f.heard, fmt.Sprintf(format, args...))
	f.mu.Unlock()
}

func (f *fakeShim) UpdateAllocation(response *si.AllocationResponse) error {
	defer f.enter()()
	for _, allocation := range response.GetNew() {
		f.hear("new %s on %s", allocation.GetAllocationKey(), allocation.GetNodeID())
	}
	for _, rejected := range response.GetRejectedAllocations() {
		f.hear("rejected %s", rejected.GetAllocationKey())
	}
	for _, release := range response.GetReleased() {
		f.hear("released %s", release.GetAllocationKey())
	}
	if f.hears != nil {
		f.hears(response)
	}
	return nil
}

func (f *fakeShim) UpdateApplication(response *si.ApplicationResponse) error {
	defer f.enter()()
	for _, accepted := range response.GetAccepted() {
		f.hear("accepted %s", accepted.GetApplicationID())
	}
	for _, updated := range response.GetUpdated() {
		f.hear("%s is %s: %s", updated.GetApplicationID(), updated.GetState(), updated.GetMessage())
	}
	return nil
}

func (f *fakeShim) UpdateNode(response *si.NodeResponse) error {
	defer f.enter()()
	for _, accepted := range response.GetAccepted() {
		f.hear("accepted %s", accepted.GetNodeID())
	}
	return errors.New("told of nothing") // is logged, and does no harm
}

func (f *fakeShim) Predicates(args *si.PredicatesArgs) error {
	defer f.enter()()
	f.mu.Lock()
	f.judged = append(f.judged, args.GetAllocationKey()+" on "+args.GetNodeID())
	refuses, allocates := f.refuses, f.allocates
	f.mu.Unlock()
	if allocates != nil && args.GetAllocate() {
		return allocates
	}
	if refuses == nil {
		return nil
	}
	return refuses(args.GetAllocationKey(), args.GetNodeID())
}

func (f *fakeShim) PreemptionPredicates(args *si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	f.mu.Lock()
	f.judged = append(f.judged, fmt.Sprintf("%s on %s without %v from %d",
		args.GetAllocationKey(), args.GetNodeID(), args.GetPreemptAllocationKeys(), args.GetStartIndex()))
	victims := f.victims
	f.mu.Unlock()
	return victims(args)
}

func (f *fakeShim) SendEvent(records []*si.EventRecord) {
	defer f.enter()()
	f.hear("%d events", len(records))
}

func (f *fakeShim) UpdateContainerSchedulingState(state *si.UpdateContainerSchedulingStateRequest) {
	defer f.enter()()
	f.hear("%s is %s", state.GetAllocationKey(), state.GetState())
}

func (f *fakeShim) GetStateDump() (string, error) { return f.dumps, nil }

// take returns the callbacks since the last call.
func (f *fakeShim) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	heard := f.heard
	f.heard = nil
	return heard
}

// stage is a registration between a scripted server and a fake shim.
type stage struct {
	t        *testing.T
	rm       *rm
	server   *script
	shim     *fakeShim
	handlers licorne.Handlers
}

// setStage returns a stage with the nodes n1 to n3. Its deadline and rechecks are too late for a test.
func setStage(t *testing.T, change ...func(*Options)) *stage {
	t.Helper()
	options := Options{PredicateDeadline: time.Minute, RecheckInterval: time.Hour, Logger: unread}.withDefaults()
	for _, one := range change {
		one(&options)
	}
	s := &stage{t: t, server: &script{assumed: map[string]string{}}, shim: &fakeShim{}}
	s.rm = newDetached(options, "rm", s.shim)
	s.rm.attach(s.server)
	s.handlers = s.rm.handlers()
	s.rm.start()
	if err := s.rm.ready(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.rm.stop)
	for _, node := range []string{"n1", "n2", "n3"} {
		s.node(node, si.NodeInfo_CREATE)
	}
	s.server.take()
	return s
}

func (s *stage) node(id string, action si.NodeInfo_ActionFromRM) {
	s.t.Helper()
	node := &si.NodeInfo{NodeID: id, Action: action}
	if err := s.rm.updateNode(&si.NodeRequest{Nodes: []*si.NodeInfo{node}}); err != nil {
		s.t.Fatal(err)
	}
}

func allocation(key, node string) *si.Allocation {
	return &si.Allocation{AllocationKey: key, ApplicationID: "app", NodeID: node}
}

// ask sends asks, or with a node running allocations.
func (s *stage) ask(allocations ...*si.Allocation) {
	s.t.Helper()
	if err := s.rm.updateAllocation(&si.AllocationRequest{Allocations: allocations}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) release(key string, termination si.TerminationType) {
	s.t.Helper()
	if err := s.rm.updateAllocation(releaseOf(key, termination)); err != nil {
		s.t.Fatal(err)
	}
}

func releaseOf(key string, termination si.TerminationType) *si.AllocationRequest {
	release := &si.AllocationRelease{ApplicationID: "app", AllocationKey: key, TerminationType: termination}
	return &si.AllocationRequest{
		Releases: &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{release}},
	}
}

// check sends a check for an allocation; it returns the refused nodes.
func (s *stage) check(key string, nodes ...string) map[string]string {
	return s.handlers.Check(&licornev1.PredicateCheck{AllocationKey: key, Allocate: true, NodeIds: nodes})
}

// serverAllocates sends an allocation by the server.
func (s *stage) serverAllocates(key, node string) {
	s.handlers.Allocations(&si.AllocationResponse{New: []*si.Allocation{allocation(key, node)}})
}

func (s *stage) serverReleases(key string, termination si.TerminationType) {
	s.handlers.Allocations(&si.AllocationResponse{Released: []*si.AllocationRelease{
		{ApplicationID: "app", AllocationKey: key, TerminationType: termination},
	}})
}

// sees fails unless take returns exactly these texts.
func (s *stage) sees(take func() []string, want ...string) {
	s.t.Helper()
	if got := take(); !slices.Equal(got, want) {
		s.t.Fatalf("got %q, want %q", got, want)
	}
}

// comesToSee waits until take has returned exactly these texts, in this order.
func (s *stage) comesToSee(take func() []string, want ...string) {
	s.t.Helper()
	var got []string
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(time.Millisecond) {
		got = append(got, take()...)
		if len(got) >= len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		s.t.Fatalf("got %q, want %q", got, want)
	}
}

package schedulerapi

import (
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// wire is a server for the real client whose sessions the test drives, message by message.
type wire struct {
	licornev1.UnimplementedSessionServer
	t        *testing.T
	target   string
	sessions atomic.Uint64 // number of sessions
	streams  chan *stream
}

// stream is a stream of the session, after its hello and its replay.
type stream struct {
	t       *testing.T
	grpc    grpc.BidiStreamingServer[licornev1.UpdateRequest, licornev1.UpdateResponse]
	session uint64
	queues  string                        // that the hello registers
	victims bool                          // whether the hello says that the RM judges victims
	wants   chan *licornev1.UpdateRequest // requests but for acknowledgements
	number  uint64
	replay  []string
	cut     chan struct{}
}

func startWire(t *testing.T) *wire {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, target: listener.Addr().String(), streams: make(chan *stream, 1)}
	server := grpc.NewServer()
	licornev1.RegisterSessionServer(server, w)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return w
}

// Update registers the RM and reads its replay. The test does the rest.
func (w *wire) Update(grpc grpc.BidiStreamingServer[licornev1.UpdateRequest, licornev1.UpdateResponse]) error {
	hello, err := grpc.Recv()
	if err != nil {
		return err
	}
	s := &stream{
		t: w.t, grpc: grpc, session: w.sessions.Add(1), queues: hello.GetHello().GetRegistration().GetConfig(),
		victims: hello.GetHello().GetCallbacks().GetPredicates().GetJudgesVictims(),
		wants:   make(chan *licornev1.UpdateRequest, 100), cut: make(chan struct{}),
	}
	s.say(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_Welcome{Welcome: &licornev1.Welcome{
		ResumeToken: "t", HeartbeatSeconds: 60, MaxItems: 1000,
	}}})
	for ended := false; !ended; {
		request, err := grpc.Recv()
		if err != nil {
			return err
		}
		s.replay = append(s.replay, textsOf(request)...)
		ended = request.GetReplayEnd() != nil
	}
	s.tell(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_ReplayResult{
		ReplayResult: &licornev1.ReplayResult{Complete: true},
	}})
	w.streams <- s
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.listen()
	}()
	select {
	case <-s.cut:
	case <-ended:
	}
	return nil
}

// listen reads requests until the client ends the stream.
func (s *stream) listen() {
	for {
		request, err := s.grpc.Recv()
		if err != nil {
			return
		}
		if request.GetNumber() > 0 {
			s.wants <- request
		}
	}
}

func (s *stream) say(response *licornev1.UpdateResponse) {
	response.Epoch, response.Session = 1, s.session
	if err := s.grpc.Send(response); err != nil {
		s.t.Errorf("the stream has ended: %v", err)
	}
}

// tell sends a numbered message.
func (s *stream) tell(response *licornev1.UpdateResponse) {
	s.number++
	response.Number = s.number
	s.say(response)
}

func (s *stream) allocations(response *si.AllocationResponse) {
	s.tell(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_Allocations{Allocations: response}})
}

func (s *stream) allocates(key, node string) {
	s.allocations(&si.AllocationResponse{New: []*si.Allocation{allocation(key, node)}})
}

func (s *stream) checks(checks ...*licornev1.PredicateCheck) {
	for n, check := range checks {
		check.Id, check.Allocate, check.DeadlineMilliseconds = s.number*100+uint64(n), true, 60_000
	}
	s.tell(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_PredicateChecks{
		PredicateChecks: &licornev1.PredicateChecks{Checks: checks},
	}})
}

// gets waits for these texts in the next requests; "|" is the end of a request.
func (s *stream) gets(want ...string) {
	s.t.Helper()
	var got []string
	for len(got) < len(want) {
		select {
		case request := <-s.wants:
			got = append(append(got, textsOf(request)...), "|")
		case <-time.After(patient):
			s.t.Fatalf("got %q, want %q", got, want)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Fatalf("got %q, want %q", got, want)
	}
}

func textsOf(request *licornev1.UpdateRequest) (texts []string) {
	for _, node := range request.GetNodes().GetNodes() {
		texts = append(texts, "node "+node.GetNodeID())
	}
	for _, app := range request.GetApplications().GetNew() {
		texts = append(texts, "app "+app.GetApplicationID())
	}
	for _, one := range request.GetAllocations().GetAllocations() {
		texts = append(texts, "ask "+one.GetAllocationKey()+"@"+one.GetNodeID())
	}
	for _, release := range request.GetAllocations().GetReleases().GetAllocationsToRelease() {
		texts = append(texts, "release "+release.GetAllocationKey())
	}
	for _, answer := range request.GetPredicateAnswers().GetAnswers() {
		texts = append(texts, fmt.Sprintf("answer %d refusals", len(answer.GetRefused())))
	}
	for _, answer := range request.GetPreemptionAnswers().GetAnswers() {
		for _, need := range answer.GetNodes() {
			texts = append(texts, fmt.Sprintf("%s without victims up to %d", need.GetNodeId(), need.GetIndex()))
		}
	}
	return texts
}

// meet registers a shim with the nodes n1 and n2 and an application, and returns the stream.
func (w *wire) meet(shim *fakeShim) (*Scheduler, *stream) {
	w.t.Helper()
	s, err := New(Options{
		Target: w.target, Retry: licorne.Retry{Maximum: 10 * time.Millisecond}, Logger: unread,
		PredicateDeadline: time.Minute, // nothing is overdue
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Stop)
	if _, err := s.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm"}, shim); err != nil {
		w.t.Fatal(err)
	}
	stream := <-w.streams
	for _, id := range []string{"n1", "n2"} {
		w.must(s.UpdateNode(&si.NodeRequest{RmID: "rm", Nodes: []*si.NodeInfo{{NodeID: id, Action: si.NodeInfo_CREATE}}}))
		stream.gets("node "+id, "|")
	}
	app := &si.AddApplicationRequest{ApplicationID: "app", QueueName: "root.a"}
	w.must(s.UpdateApplication(&si.ApplicationRequest{RmID: "rm", New: []*si.AddApplicationRequest{app}}))
	stream.gets("app app", "|")
	return s, stream
}

func (w *wire) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) ask(s *Scheduler, key string) {
	w.t.Helper()
	w.must(s.UpdateAllocation(&si.AllocationRequest{RmID: "rm", Allocations: []*si.Allocation{allocation(key, "")}}))
}

// An ask on another node is released there and placed, by two requests in this order.
func TestMovingBackOnTheWire(t *testing.T) {
	w, shim := startWire(t), &fakeShim{}
	s, server := w.meet(shim)
	w.ask(s, "k1")
	server.gets("ask k1@", "|")
	server.checks(&licornev1.PredicateCheck{AllocationKey: "k1", NodeIds: []string{"n1"}})
	server.gets("answer 0 refusals", "|")
	server.allocates("k1", "n2")
	server.gets("release k1", "|", "ask k1@n1", "|")
	server.allocations(&si.AllocationResponse{Released: []*si.AllocationRelease{
		{ApplicationID: "app", AllocationKey: "k1", TerminationType: stoppedByRM},
	}})
	server.allocates("k1", "n1")
	w.ask(s, "k2")
	server.gets("ask k2@", "|")
	server.allocates("k2", "n1")
	waitFor(t, shim, "new k1 on n1", "new k2 on n1")
}

// A taken ask is replayed as placed after the loss of the server. The shim does not receive the echo.
func TestTakenAskIsReplayedAsPlaced(t *testing.T) {
	w, shim := startWire(t), &fakeShim{}
	s, server := w.meet(shim)
	for _, key := range []string{"k1", "k2"} {
		w.ask(s, key)
		server.gets("ask "+key+"@", "|")
	}
	server.checks(&licornev1.PredicateCheck{AllocationKey: "k1", NodeIds: []string{"n1"}})
	server.gets("answer 0 refusals", "|")
	close(server.cut)
	server = <-w.streams
	want := []string{"node n1", "node n2", "app app", "ask k1@n1", "ask k2@"}
	if fmt.Sprint(server.replay) != fmt.Sprint(want) {
		t.Fatalf("the replay is %q, want %q", server.replay, want)
	}
	server.allocates("k1", "n1")
	server.allocates("k2", "n2")
	waitFor(t, shim, "new k1 on n1", "new k2 on n2")
}

// Queues that could not be sent are in force before the applications of a replay.
func TestQueuesArriveBeforeTheirApplications(t *testing.T) {
	w, shim := startWire(t), &fakeShim{}
	s, server := w.meet(shim)
	w.must(s.UpdateConfiguration(&si.UpdateConfigurationRequest{RmID: "rm", Config: "new"}))
	close(server.cut)
	if server = <-w.streams; server.queues != "new" {
		t.Fatalf("the RM registers the queues %q", server.queues)
	}
}

// An ask whose node was removed before the shim received its allocation is pending, for the server and in a replay.
func TestAskOfARemovedNodeWaitsOn(t *testing.T) {
	w, shim := startWire(t), &fakeShim{}
	s, server := w.meet(shim)
	w.ask(s, "k1")
	server.gets("ask k1@", "|")
	gone := &si.NodeInfo{NodeID: "n1", Action: si.NodeInfo_DECOMISSION}
	w.must(s.UpdateNode(&si.NodeRequest{RmID: "rm", Nodes: []*si.NodeInfo{gone}}))
	server.gets("node n1", "|")
	server.allocates("k1", "n1")
	server.allocations(&si.AllocationResponse{Released: []*si.AllocationRelease{
		{ApplicationID: "app", AllocationKey: "k1", TerminationType: stoppedByRM},
	}})
	// The allocation may have been handed back before.
	for text := ""; text != "ask k1@"; {
		select {
		case request := <-server.wants:
			text = textsOf(request)[0]
		case <-time.After(patient):
			t.Fatal("the server is not asked again")
		}
	}
	close(server.cut)
	server = <-w.streams
	if want := []string{"node n2", "app app", "ask k1@"}; !slices.Equal(server.replay, want) {
		t.Fatalf("the replay is %q, want %q", server.replay, want)
	}
	server.allocates("k1", "n2")
	waitFor(t, shim, "new k1 on n2")
}

// If a new session begins during a check, its replay has the ask as pending, so the ask's node is sent at once.
func TestTakenAskOfAnOlderSessionIsPlaced(t *testing.T) {
	w, shim := startWire(t), &fakeShim{}
	judging, answer := make(chan struct{}), make(chan struct{})
	shim.refuses = func(string, string) error {
		close(judging)
		<-answer
		return nil
	}
	s, server := w.meet(shim)
	w.ask(s, "k1")
	server.gets("ask k1@", "|")
	server.checks(&licornev1.PredicateCheck{AllocationKey: "k1", NodeIds: []string{"n1"}})
	<-judging
	close(server.cut)
	server = <-w.streams
	close(answer)
	server.gets("ask k1@n1", "|")
	waitFor(t, shim, "new k1 on n1")
}

// The shim receives an unchecked allocation before the next check.
func TestChecksAreJudgedInTheOrderOfTheStream(t *testing.T) {
	w, shim := startWire(t), &fakeShim{}
	shim.refuses = func(key, _ string) error {
		shim.mu.Lock()
		defer shim.mu.Unlock()
		if key == "k2" && len(shim.heard) == 0 {
			return fmt.Errorf("judged without k1")
		}
		return nil
	}
	s, server := w.meet(shim)
	for _, key := range []string{"k1", "k2"} {
		w.ask(s, key)
		server.gets("ask "+key+"@", "|")
	}
	server.allocates("k1", "n1")
	server.checks(&licornev1.PredicateCheck{AllocationKey: "k2", NodeIds: []string{"n1"}})
	server.gets("answer 0 refusals", "|")
}

// The shim's decision on victims reaches the server, in order with other checks, so that it considers all
// earlier allocations.
func TestVictimsOnTheWire(t *testing.T) {
	w, shim := startWire(t), &fakeShim{}
	shim.victims = func(args *si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
		shim.mu.Lock()
		defer shim.mu.Unlock()
		return &si.PreemptionPredicatesResponse{Success: args.GetNodeID() == "n2" && len(shim.heard) == 1, Index: 1}
	}
	s, server := w.meet(shim)
	if !server.victims {
		t.Fatal("the RM does not say that it judges victims")
	}
	for _, key := range []string{"k1", "k2"} {
		w.ask(s, key)
		server.gets("ask "+key+"@", "|")
	}
	server.checks(&licornev1.PredicateCheck{AllocationKey: "k1", NodeIds: []string{"n1"}})
	server.tell(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_PreemptionChecks{
		PreemptionChecks: &licornev1.PreemptionChecks{Checks: []*licornev1.PreemptionCheck{{
			Id: 7, AllocationKey: "k2", DeadlineMilliseconds: 60_000,
			Nodes: []*licornev1.NodeVictims{victimsOn("n1", 0), victimsOn("n2", 0)},
		}}},
	}})
	server.gets("answer 0 refusals", "|", "n2 without victims up to 1", "|")
	waitFor(t, shim, "new k1 on n1")
}

// waitFor waits until the shim has recorded exactly these texts.
func waitFor(t *testing.T, shim *fakeShim, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(patient); len(got) < len(want) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		got = append(got, shim.take()...)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the shim heard %q, want %q", got, want)
	}
}

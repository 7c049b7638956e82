package recording

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"licorne.dev/clients/go/licornev1"
)

// state answers for one ask.
type state struct {
	licornev1.UnimplementedStateServer
	answer *licornev1.ExplainResponse
	asked  *licornev1.ExplainRequest
}

func (s *state) Explain(_ context.Context, request *licornev1.ExplainRequest) (*licornev1.ExplainResponse, error) {
	s.asked = request
	if s.answer == nil {
		return nil, status.Error(codes.NotFound, "no such ask")
	}
	return s.answer, nil
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// The reason is the first check that an ask fails, asked of the first member that answers.
func TestReasonOfTheServer(t *testing.T) {
	gone, here := listen(t), listen(t)
	gone.Close()
	served := &state{answer: &licornev1.ExplainResponse{
		Verdict: "pending", Summary: "root.a has no room",
		Checks: []*licornev1.Check{{Passed: true}, {Code: "QUEUE_MAX_EXCEEDED"}, {Code: "NO_NODE_FITS"}},
	}}
	server := grpc.NewServer()
	licornev1.RegisterStateServer(server, served)
	go func() { _ = server.Serve(here) }()
	t.Cleanup(server.Stop)
	explainer := NewExplainer(gone.Addr().String()+", "+here.Addr().String(), nil, "[rm]default")
	reason, err := explainer.Why(t.Context(), "app", "uid")
	if want := (Reason{"QUEUE_MAX_EXCEEDED", "QUEUE_MAX_EXCEEDED: root.a has no room"}); reason != want || err != nil {
		t.Errorf("the reason is %v, %v", reason, err)
	}
	asked := served.asked
	if asked.GetPartition() != "[rm]default" || asked.GetApplicationId() != "app" || asked.GetAllocationKey() != "uid" {
		t.Errorf("asked was %v", asked)
	}
	served.answer.Verdict = "allocated"
	if reason, err = explainer.Why(t.Context(), "app", "uid"); reason.Code != "" || err != nil {
		t.Errorf("an allocated ask waits for %v, %v", reason, err)
	}
	served.answer = nil
	if _, err = explainer.Why(t.Context(), "app", "uid"); status.Code(err) != codes.NotFound {
		t.Errorf("for an unknown ask the error is %v", err)
	}
}

package licorne_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"licorne.dev/clients/go/licornev1"
)

// patience is the time limit for an expected event.
const patience = time.Minute

// No test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a server whose streams are driven by the test.
type scripted struct {
	licornev1.UnimplementedSessionServer
	licornev1.UnimplementedAdminServer
	t       *testing.T
	address string
	streams chan *scriptedStream
	// configure answers UpdateConfiguration.
	configure func(*licornev1.UpdateConfigurationRequest) error
	grpc      *grpc.Server
}

// newScripted starts a server on an address, which ends with the test.
func newScripted(t *testing.T, address string, config *tls.Config) *scripted {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(8 << 20)}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	s := &scripted{
		t: t, address: listener.Addr().String(), streams: make(chan *scriptedStream, 8),
		grpc: grpc.NewServer(options...),
	}
	licornev1.RegisterSessionServer(s.grpc, s)
	licornev1.RegisterAdminServer(s.grpc, s)
	var serving sync.WaitGroup
	serving.Add(1)
	go func() {
		defer serving.Done()
		_ = s.grpc.Serve(listener)
	}()
	t.Cleanup(func() {
		s.grpc.Stop()
		serving.Wait()
	})
	return s
}

func serve(t *testing.T) *scripted {
	t.Helper()
	return newScripted(t, "127.0.0.1:0", nil)
}

func (s *scripted) Update(rpc licornev1.Session_UpdateServer) error {
	stream := &scriptedStream{t: s.t, rpc: rpc, over: make(chan error, 1)}
	s.streams <- stream
	select {
	case err := <-stream.over:
		return err
	case <-rpc.Context().Done():
		return rpc.Context().Err()
	}
}

func (s *scripted) UpdateConfiguration(
	_ context.Context, request *licornev1.UpdateConfigurationRequest,
) (*licornev1.UpdateConfigurationResponse, error) {
	return &licornev1.UpdateConfigurationResponse{Changed: true}, s.configure(request)
}

// accept waits for the next stream and reads its hello.
func (s *scripted) accept() *scriptedStream {
	s.t.Helper()
	select {
	case stream := <-s.streams:
		first := stream.receive()
		if first.GetHello() == nil {
			s.t.Fatalf("the first message is no hello: %v", first)
		}
		stream.hello = first.GetHello()
		stream.stamp = [2]uint64{1, 1}
		return stream
	case <-time.After(patience):
		s.t.Fatal("no stream was opened")
		return nil
	}
}

// register accepts a stream as a new session, and returns its replay.
func (s *scripted) register(stamp ...uint64) (*scriptedStream, []*licornev1.UpdateRequest) {
	s.t.Helper()
	stream := s.accept()
	if len(stamp) == 2 {
		stream.stamp = [2]uint64{stamp[0], stamp[1]}
	}
	return stream, stream.register()
}

// resume accepts a stream that resumes the session of an older one, whose requests were processed up to a
// number.
func (s *scripted) resume(older *scriptedStream, processed uint64) *scriptedStream {
	s.t.Helper()
	stream := s.accept()
	if stream.hello.GetResumeToken() != "token" {
		s.t.Fatalf("the hello has the token %q", stream.hello.GetResumeToken())
	}
	stream.stamp, stream.sent = older.stamp, older.sent
	stream.processed = processed
	stream.welcome(&licornev1.Welcome{Resumed: true, ResumeToken: "token", HeartbeatSeconds: 30, MaxItems: 1000}, processed)
	return stream
}

// scriptedStream is one stream of a scripted server. The test reads and writes it.
type scriptedStream struct {
	t     *testing.T
	rpc   licornev1.Session_UpdateServer
	over  chan error
	hello *licornev1.Hello
	stamp [2]uint64
	// sent is the number of the last response, processed the number of the last request, and acknowledged the
	// highest number that the client has acknowledged.
	sent, processed, acknowledged uint64
}

// register welcomes the client to a new session, and returns its replay.
func (s *scriptedStream) register() []*licornev1.UpdateRequest {
	s.t.Helper()
	s.welcome(&licornev1.Welcome{ResumeToken: "token", HeartbeatSeconds: 30, MaxItems: 1000}, 0)
	replayed := s.takeReplay()
	s.replayComplete()
	return replayed
}

func (s *scriptedStream) replayComplete() {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_ReplayResult{
		ReplayResult: &licornev1.ReplayResult{Complete: true},
	}})
}

func (s *scriptedStream) drain(retryAfter uint32) {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_Drain{
		Drain: &licornev1.Drain{Reason: "update", RetryAfterMilliseconds: retryAfter},
	}})
}

// read reads one message, or returns the error with which the stream ended.
func (s *scriptedStream) read() (*licornev1.UpdateRequest, error) {
	type result struct {
		request *licornev1.UpdateRequest
		err     error
	}
	results := make(chan result, 1)
	go func() {
		request, err := s.rpc.Recv()
		results <- result{request, err}
	}()
	select {
	case r := <-results:
		if r.err == nil {
			s.acknowledged = r.request.GetAcknowledged()
			s.processed = max(s.processed, r.request.GetNumber())
		}
		return r.request, r.err
	case <-time.After(patience):
		return nil, errors.New("nothing came")
	}
}

// receive reads one message of any kind.
func (s *scriptedStream) receive() *licornev1.UpdateRequest {
	s.t.Helper()
	request, err := s.read()
	if err != nil {
		s.t.Fatalf("reading a request: %v", err)
	}
	return request
}

// next reads the next numbered message.
func (s *scriptedStream) next() *licornev1.UpdateRequest {
	s.t.Helper()
	for {
		if request := s.receive(); request.GetNumber() != 0 {
			return request
		}
	}
}

// awaitAcknowledged reads until the client has acknowledged all responses.
func (s *scriptedStream) awaitAcknowledged() {
	s.t.Helper()
	for s.acknowledged < s.sent {
		s.receive()
	}
}

// takeReplay reads a replay, from its begin to its end.
func (s *scriptedStream) takeReplay() []*licornev1.UpdateRequest {
	s.t.Helper()
	if begin := s.next(); begin.GetReplayBegin() == nil || begin.GetNumber() != 1 {
		s.t.Fatalf("no begin of a replay with number 1: %v", begin)
	}
	var replayed []*licornev1.UpdateRequest
	for {
		request := s.next()
		if request.GetReplayEnd() != nil {
			return append(replayed, request)
		}
		replayed = append(replayed, request)
	}
}

func (s *scriptedStream) welcome(welcome *licornev1.Welcome, acknowledged uint64) {
	s.t.Helper()
	s.write(&licornev1.UpdateResponse{
		Acknowledged: acknowledged,
		Message:      &licornev1.UpdateResponse_Welcome{Welcome: welcome},
	})
}

// write sends a message of this session unchanged.
func (s *scriptedStream) write(response *licornev1.UpdateResponse) {
	s.t.Helper()
	response.Epoch, response.Session = s.stamp[0], s.stamp[1]
	if err := s.rpc.Send(response); err != nil {
		s.t.Fatalf("sending a response: %v", err)
	}
}

// send sends a message with the next number, which acknowledges all requests that were read.
func (s *scriptedStream) send(response *licornev1.UpdateResponse) {
	s.t.Helper()
	s.sent++
	response.Number, response.Acknowledged = s.sent, s.processed
	s.write(response)
}

// cut ends the stream without a goodbye.
func (s *scriptedStream) cut() { s.over <- status.Error(codes.Unavailable, "cut by the test") }

// end ends the stream in order, or with an error.
func (s *scriptedStream) end(err error) { s.over <- err }

func (s *scriptedStream) nodes(response *si.NodeResponse) {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_Nodes{Nodes: response}})
}

func (s *scriptedStream) applications(response *si.ApplicationResponse) {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_Applications{Applications: response}})
}

func (s *scriptedStream) allocations(response *si.AllocationResponse) {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_Allocations{Allocations: response}})
}

func (s *scriptedStream) checks(checks ...*licornev1.PredicateCheck) {
	s.t.Helper()
	s.send(&licornev1.UpdateResponse{Message: &licornev1.UpdateResponse_PredicateChecks{
		PredicateChecks: &licornev1.PredicateChecks{Checks: checks},
	}})
}

// refusal returns a status with a reason and metadata, like the server's.
func refusal(code codes.Code, text, reason string, fields ...string) error {
	details := []protoadapt.MessageV1{}
	if reason != "" {
		details = append(details, protoadapt.MessageV1Of(&errdetails.ErrorInfo{Reason: reason, Domain: "licorne"}))
	}
	if len(fields) > 0 {
		request := &errdetails.BadRequest{}
		for _, field := range fields {
			request.FieldViolations = append(request.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field})
		}
		details = append(details, protoadapt.MessageV1Of(request))
	}
	answer, err := status.New(code, text).WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return answer.Err()
}

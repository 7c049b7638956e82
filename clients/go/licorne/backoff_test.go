package licorne

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"licorne.dev/clients/go/licornev1"
)

// No wait is longer than 1.5 s, except if the server reports a lack of capacity, or requests a wait, which is
// cut to five minutes.
func TestBackoff(t *testing.T) {
	retry, err := Retry{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	b := newBackoff(retry)
	for i, bound := range []time.Duration{75, 150, 300, 600, 1200, 1500, 1500, 1500} {
		if wait := b.next(); wait > bound*time.Millisecond {
			t.Fatalf("wait %d is %v", i, wait)
		}
	}
	if b.ceiling != 2*time.Second {
		t.Fatalf("the last ceiling is %v", b.ceiling)
	}
	for range 8 {
		b.nextExhausted()
	}
	if b.ceiling != 30*time.Second {
		t.Fatalf("the last ceiling of a full server is %v", b.ceiling)
	}
	if wait := b.next(); wait > 1500*time.Millisecond {
		t.Fatalf("after a full server the wait is %v", wait)
	}
	for given, least := range map[time.Duration]time.Duration{time.Minute: time.Minute, 1000 * time.Hour: longest} {
		if wait := b.told(given); wait < least || wait > least+least/2 {
			t.Fatalf("told %v, the wait is %v", given, wait)
		}
	}
}

// The ceiling is reset after a stream that lasted, but not after one that was dropped at once.
func TestBackoffStartsOver(t *testing.T) {
	retry, _ := Retry{}.complete()
	b := newBackoff(retry)
	b.next()
	b.lasted(time.Second)
	if b.ceiling != 200*time.Millisecond {
		t.Fatalf("a stream of a second takes the ceiling to %v", b.ceiling)
	}
	b.lasted(2 * time.Second)
	if b.ceiling != 100*time.Millisecond {
		t.Fatalf("a stream of two seconds takes the ceiling to %v", b.ceiling)
	}
}

// A status may request the wait before the next attempt.
func TestWantedWait(t *testing.T) {
	info := &errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)}
	answer, err := status.New(codes.ResourceExhausted, "full").WithDetails(protoadapt.MessageV1Of(info))
	if err != nil {
		t.Fatal(err)
	}
	if wait := wantedWait(answer); wait != 7*time.Second {
		t.Fatalf("the wait is %v", wait)
	}
	if wait := wantedWait(status.New(codes.ResourceExhausted, "full")); wait != 0 {
		t.Fatalf("without details the wait is %v", wait)
	}
}

// An acknowledgement of a request that was never sent, and a stamp above that of the welcome, are errors.
func TestUnbelievable(t *testing.T) {
	s := &session{token: "token", stamp: stamp{1, 1}}
	numbered := func(session, acknowledged uint64) *licornev1.UpdateResponse {
		return &licornev1.UpdateResponse{Number: 1, Epoch: 1, Session: session, Acknowledged: acknowledged}
	}
	if _, err := s.accepts(numbered(2, 0)); err == nil || s.token == "" || s.stamp != (stamp{1, 1}) {
		t.Fatalf("a higher stamp leads to %v, token %q, stamp %v", err, s.token, s.stamp)
	}
	if _, err := s.accepts(numbered(1, 5)); err == nil || s.token != "" {
		t.Fatalf("a wrong acknowledgement leads to %v, token %q", err, s.token)
	}
}

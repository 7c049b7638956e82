package licorne

import (
	"errors"
	"fmt"

	"licorne.dev/clients/go/licornev1"
)

const protocol = 1

// stamp has the epoch and the session of a response. The epoch rises with every start of the server, the
// session with every registration. Stamps are compared as pairs.
type stamp struct{ epoch, session uint64 }

func stampOf(response *licornev1.UpdateResponse) stamp {
	return stamp{response.GetEpoch(), response.GetSession()}
}

func (s stamp) before(other stamp) bool {
	if s.epoch != other.epoch {
		return s.epoch < other.epoch
	}
	return s.session < other.session
}

// session has the numbers, the acknowledgements and the resumption of an RM's session, without access to a
// stream. Both sides number their messages from 1, across all streams of a session. Each side acknowledges
// the number of its peer's last message that it has processed.
type session struct {
	rmID      string
	instance  uint64
	callbacks *licornev1.Callbacks
	// registration is for hellos.
	registration registration

	// token is the token of the last welcome; empty if the next hello must not request a resumption.
	token string
	// stamp is the stamp of the last response.
	stamp stamp
	// sent is the number of the last request that was sent.
	sent uint64
	// processed is the number of the last request that the server has processed.
	processed uint64
	// lost is the number of the last request that was dropped unprocessed, because too many were retained.
	lost uint64
	// received is the number of the last response that was read.
	received uint64
	// consumed is the number of the last response that the handlers have processed.
	consumed uint64
	// acknowledged is the number of the last response that the client has acknowledged.
	acknowledged uint64
	// kept has the sent requests that the server has not processed, oldest first.
	kept []*batch
	// keptBytes is the size of kept, at most keepBytes.
	keptBytes, keepBytes int
}

// resumable returns whether the next hello may request a resumption of the session.
func (s *session) resumable() bool { return s.token != "" && s.processed >= s.lost }

// unacknowledged returns the number of processed responses that the client has not acknowledged.
func (s *session) unacknowledged() uint64 { return s.consumed - s.acknowledged }

// forget makes the next hello request a new session and a replay.
func (s *session) forget() { s.token = "" }

// hello returns the first request of a stream.
func (s *session) hello() *licornev1.UpdateRequest {
	hello := &licornev1.Hello{
		RmId:         s.rmID,
		Instance:     s.instance,
		Protocol:     protocol,
		Acknowledged: s.consumed,
		Registration: s.registration.hello(),
		Callbacks:    s.callbacks,
		Epoch:        s.stamp.epoch,
	}
	if s.resumable() {
		hello.ResumeToken = s.token
	}
	return &licornev1.UpdateRequest{Message: &licornev1.UpdateRequest_Hello{Hello: hello}}
}

// welcome processes the server's answer to the hello. It returns the requests to send again if the session is
// resumed. A stamp below the last one is an error, because it is from a server that no longer owns this RM.
// The resumption of a session that was given up after the hello is an error too.
func (s *session) welcome(response *licornev1.UpdateResponse) ([]*batch, error) {
	at := stampOf(response)
	if at.before(s.stamp) {
		return nil, fmt.Errorf("the server answers for epoch %d, session %d; we are at epoch %d, session %d",
			at.epoch, at.session, s.stamp.epoch, s.stamp.session)
	}
	if response.GetWelcome().GetResumed() {
		if s.token == "" {
			return nil, errors.New("the session was given up since the hello: a replay is needed")
		}
		if err := s.checkAcknowledged(response.GetAcknowledged()); err != nil {
			return nil, err
		}
	}
	s.stamp = at
	s.token = response.GetWelcome().GetResumeToken()
	if !response.GetWelcome().GetResumed() {
		s.registration.welcomed()
		s.sent, s.processed, s.lost = 0, 0, 0
		s.received, s.consumed, s.acknowledged = 0, 0, 0
		s.kept, s.keptBytes = nil, 0
		return nil, nil
	}
	s.dropProcessed(response.GetAcknowledged())
	s.acknowledged = s.consumed
	s.sent = response.GetAcknowledged()
	if len(s.kept) > 0 {
		s.sent = s.kept[len(s.kept)-1].request.GetNumber()
	}
	return append([]*batch(nil), s.kept...), nil
}

// send numbers a request, and retains it until the server has processed it.
func (s *session) send(b *batch) {
	s.number(b.request)
	s.kept = append(s.kept, b)
	s.keptBytes += b.bytes
	for s.keptBytes > s.keepBytes {
		s.lost = s.popKept()
	}
}

// number numbers a request without retaining it.
func (s *session) number(request *licornev1.UpdateRequest) {
	s.sent++
	request.Number = s.sent
	s.acknowledge(request)
}

// acknowledge adds to a request the number of the last response that the handlers have processed.
func (s *session) acknowledge(request *licornev1.UpdateRequest) {
	s.acknowledged = s.consumed
	request.Acknowledged = s.consumed
}

// accepts returns false for a repetition, and for a response of an older session. It returns an error for a
// gap, and for an acknowledgement of a request that was never sent; then the next hello requests a new
// session, because only a replay restores the state. A stamp above that of the welcome is an error too, as no
// server sends it: the response was corrupted, and is repeated when the session is resumed.
func (s *session) accepts(response *licornev1.UpdateResponse) (bool, error) {
	at := stampOf(response)
	if at.before(s.stamp) {
		return false, nil
	}
	if s.stamp.before(at) {
		return false, fmt.Errorf("a response is for epoch %d, session %d; its stream is for epoch %d, session %d",
			at.epoch, at.session, s.stamp.epoch, s.stamp.session)
	}
	if err := s.checkAcknowledged(response.GetAcknowledged()); err != nil {
		return false, err
	}
	s.dropProcessed(response.GetAcknowledged())
	number := response.GetNumber()
	if number == 0 {
		return true, nil
	}
	if number > s.received+1 {
		s.forget()
		return false, fmt.Errorf("response %d follows response %d: some are lost", number, s.received)
	}
	if number <= s.received {
		return false, nil
	}
	s.received = number
	return true, nil
}

// consume records that the handlers have processed the responses of a session up to this number.
func (s *session) consume(at stamp, number uint64) {
	if at == s.stamp && number > s.consumed {
		s.consumed = number
	}
}

func (s *session) checkAcknowledged(number uint64) error {
	if number <= s.sent {
		return nil
	}
	s.forget()
	return fmt.Errorf("request %d is acknowledged, but %d were sent", number, s.sent)
}

func (s *session) dropProcessed(number uint64) {
	s.processed = max(s.processed, number)
	for len(s.kept) > 0 && s.kept[0].request.GetNumber() <= number {
		s.popKept()
	}
}

// popKept drops the oldest retained request, and returns its number.
func (s *session) popKept() uint64 {
	oldest := s.kept[0]
	s.kept[0] = nil
	s.kept = s.kept[1:]
	s.keptBytes -= oldest.bytes
	return oldest.request.GetNumber()
}

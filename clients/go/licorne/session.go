package licorne

import (
	"errors"
	"fmt"

	"licorne.dev/clients/go/licornev1"
)

const protocol = 1

// stamp is the epoch and the session of a response. The first rises with every start of the server,
// the second with every registration. They are compared as a pair.
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

// session has the numbers, the acknowledgements and the resumption of one RM's session. It knows no
// stream. Both sides number their messages from 1 on, across all streams of a session. Each tells
// the other the number up to which it has dealt with the other's messages.
type session struct {
	rmID      string
	instance  uint64
	callbacks *licornev1.Callbacks
	// registration is what the hello says of the RM.
	registration registration

	// token is that of the last welcome; empty if the next hello must not resume.
	token string
	// stamp is that of the last response.
	stamp stamp
	// sent is the number of the last request that was sent.
	sent uint64
	// processed is the number of the last request that the server has dealt with.
	processed uint64
	// lost is the number of the last request that was dropped unprocessed, for lack of room.
	lost uint64
	// received is the number of the last response that was read.
	received uint64
	// consumed is the number of the last response that the handlers have dealt with.
	consumed uint64
	// acknowledged is the number of the last response that the server knows to be dealt with.
	acknowledged uint64
	// kept has the requests that were sent and not processed, oldest first.
	kept []*batch
	// keptBytes are those of kept, at most keepBytes.
	keptBytes, keepBytes int
}

// resumable says whether the next hello may ask the server to resume the session.
func (s *session) resumable() bool { return s.token != "" && s.processed >= s.lost }

// unacknowledged is how many responses were dealt with that the server has not been told of.
func (s *session) unacknowledged() uint64 { return s.consumed - s.acknowledged }

// forget makes the next hello ask for a new session and a replay.
func (s *session) forget() { s.token = "" }

// hello is the first request of a stream.
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

// welcome takes the server's answer to the hello. It returns the requests to send again if the
// session is resumed. A lower stamp than the last one is an error: it comes from a server that does
// not own this RM any more. So is a resumption of what was given up since the hello.
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

// send numbers a request and keeps it until the server has processed it.
func (s *session) send(b *batch) {
	s.number(b.request)
	s.kept = append(s.kept, b)
	s.keptBytes += b.bytes
	for s.keptBytes > s.keepBytes {
		s.lost = s.popKept()
	}
}

// number numbers a request that is not kept.
func (s *session) number(request *licornev1.UpdateRequest) {
	s.sent++
	request.Number = s.sent
	s.acknowledge(request)
}

// acknowledge puts into a request the number up to which the responses have been dealt with.
func (s *session) acknowledge(request *licornev1.UpdateRequest) {
	s.acknowledged = s.consumed
	request.Acknowledged = s.consumed
}

// accepts says whether to apply a response. Repeats and responses of an older session are dropped.
// A gap is an error, and so is an acknowledgement of what was never sent. They make the next hello ask for
// a new session: only a replay makes that good. A stamp above that of the welcome is an error too, as no
// server sends it: the response was changed on the way, and is repeated when the session is resumed.
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

// consume notes that the responses of a session were dealt with up to that number.
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

// popKept drops the oldest kept request and returns its number.
func (s *session) popKept() uint64 {
	oldest := s.kept[0]
	s.kept[0] = nil
	s.kept = s.kept[1:]
	s.keptBytes -= oldest.bytes
	return oldest.request.GetNumber()
}

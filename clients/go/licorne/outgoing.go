package licorne

import (
	"sync"
	"time"

	"licorne.dev/clients/go/licornev1"
)

// queuedAnswer is an answer to a check of either kind, with its encoded size.
type queuedAnswer struct {
	// Either predicates or preemption is set.
	predicates *licornev1.PredicateAnswer
	preemption *licornev1.PreemptionAnswer
	size       int
}

// outgoing has the unsent requests. The state's lock guards it.
//
// It is closed while there is no session, because the next session begins with a replay of all items. It is
// open, even without a stream, while the session can be resumed.
type outgoing struct {
	packer  packer
	answers []queuedAnswer
	dumps   []*licornev1.StateDump
	// window delays requests while the server has a backlog.
	window joinWindow
	// holds is true while the writer waits for the end of the window with one queued request.
	holds bool
	// limit is the number of bytes that may wait in the packer.
	limit int
	// open is true if there is a session for which items are queued, and streaming if it has a stream.
	open, streaming bool
	// room is signalled when a request was sent, and when the stream ends.
	room *sync.Cond
}

// begin opens the queue for a stream that accepts maxItems items in a request.
func (o *outgoing) begin(maxItems int) {
	o.packer.maxItems = maxItems
	o.open, o.streaming = true, true
}

// pause records the loss of the stream, and closes the queue unless the session can be resumed.
func (o *outgoing) pause(resumable bool) {
	o.streaming = false
	o.room.Broadcast()
	if !resumable {
		o.close()
	}
}

// close closes the queue and drops its content, because the session has ended.
func (o *outgoing) close() {
	o.clear()
	o.open, o.streaming = false, false
	o.room.Broadcast()
}

func (o *outgoing) clear() {
	o.packer.clear()
	o.answers, o.dumps = nil, nil
}

// seal fixes the queued requests: all of them are sent before any later item or answer.
func (o *outgoing) seal() {
	var first []*batch
	for len(o.answers) > 0 || len(o.dumps) > 0 {
		first = append(first, o.nextCallback())
	}
	o.packer.seal(first)
}

// hold returns how long the writer holds the only queued request for more items; 0 to send it now.
func (o *outgoing) hold(now time.Time) time.Duration {
	left := o.window.left(now)
	o.holds = left > 0 && o.mayWait()
	if !o.holds {
		return 0
	}
	return left
}

// held returns true if queued items need not wake the writer, which waits for the end of its window.
func (o *outgoing) held() bool { return o.holds && o.mayWait() }

// mayWait returns true unless a request has to be sent now: because it is full, another request is behind it,
// or a caller waits for the queue to shrink. Answers and dumps never wait.
func (o *outgoing) mayWait() bool {
	return o.packer.takesMore() && o.packer.bytes <= o.limit && len(o.answers) == 0 && len(o.dumps) == 0
}

// next removes and returns the request to send after so many unprocessed ones; nil if there is none. Answers
// precede all items that are not sealed, because the server waits for them, and their order relative to items
// is free.
func (o *outgoing) next(unprocessed uint64, now time.Time) *batch {
	if o.packer.sealed == 0 && (len(o.answers) > 0 || len(o.dumps) > 0) {
		return o.nextCallback()
	}
	b := o.packer.take()
	if b != nil {
		o.window.sent(b.items, unprocessed, now)
	}
	if b != nil && o.packer.bytes <= o.limit && o.packer.bytes+b.bytes > o.limit {
		o.room.Broadcast()
	}
	return b
}

// nextCallback removes and returns answers to checks, or if there are none a state dump.
func (o *outgoing) nextCallback() *batch {
	if len(o.answers) > 0 {
		return o.nextAnswers()
	}
	dump := o.dumps[0]
	o.dumps = o.dumps[1:]
	message := &licornev1.UpdateRequest_StateDump{StateDump: dump}
	return &batch{request: &licornev1.UpdateRequest{Message: message}, bytes: len(dump.GetJson())}
}

// nextAnswers removes and returns the oldest answers, up to the limits of one request and to the first answer
// of a different kind.
func (o *outgoing) nextAnswers() *batch {
	count, bytes := 0, 0
	victims := o.answers[0].preemption != nil
	for count < len(o.answers) && count < o.packer.maxItems &&
		(o.answers[count].preemption != nil) == victims &&
		(count == 0 || bytes+o.answers[count].size <= maxMessageBytes) {
		bytes += o.answers[count].size
		count++
	}
	taken := o.answers[:count]
	if o.answers = o.answers[count:]; len(o.answers) == 0 {
		o.answers = nil
	}
	request := &licornev1.UpdateRequest{}
	if victims {
		request.Message = preemptionAnswers(taken)
	} else {
		request.Message = predicateAnswers(taken)
	}
	return &batch{request: request, bytes: bytes}
}

func predicateAnswers(answers []queuedAnswer) *licornev1.UpdateRequest_PredicateAnswers {
	list := make([]*licornev1.PredicateAnswer, len(answers))
	for i := range list {
		list[i] = answers[i].predicates
	}
	return &licornev1.UpdateRequest_PredicateAnswers{PredicateAnswers: &licornev1.PredicateAnswers{Answers: list}}
}

func preemptionAnswers(answers []queuedAnswer) *licornev1.UpdateRequest_PreemptionAnswers {
	list := make([]*licornev1.PreemptionAnswer, len(answers))
	for i := range list {
		list[i] = answers[i].preemption
	}
	return &licornev1.UpdateRequest_PreemptionAnswers{PreemptionAnswers: &licornev1.PreemptionAnswers{Answers: list}}
}

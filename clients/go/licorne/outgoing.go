package licorne

import (
	"sync"
	"time"

	"licorne.dev/clients/go/licornev1"
)

// queuedAnswer is an answer to a check of either kind, with its encoded size.
type queuedAnswer struct {
	// One of the two is set.
	predicates *licornev1.PredicateAnswer
	preemption *licornev1.PreemptionAnswer
	size       int
}

// outgoing has what is not sent yet. The state's lock guards it.
//
// It is closed while there is no session: the replay of the next one sends everything then. It is
// open without a stream while the session can be resumed.
type outgoing struct {
	packer  packer
	answers []queuedAnswer
	dumps   []*licornev1.StateDump
	// window keeps requests with items apart while many are on their way.
	window joinWindow
	// holds says that the writer waits for the end of the window with one request queued.
	holds bool
	// limit is how many bytes may wait in the packer.
	limit int
	// open says whether there is a session to queue for, and streaming whether that has a stream.
	open, streaming bool
	// room is signalled when something was sent, and when the stream ends.
	room *sync.Cond
}

// begin notes that the session has a stream, which takes maxItems items in a request.
func (o *outgoing) begin(maxItems int) {
	o.packer.maxItems = maxItems
	o.open, o.streaming = true, true
}

// pause notes that the stream is gone, and the session too unless it is resumable.
func (o *outgoing) pause(resumable bool) {
	o.streaming = false
	o.room.Broadcast()
	if !resumable {
		o.close()
	}
}

// close forgets what waits, because the session is gone.
func (o *outgoing) close() {
	o.clear()
	o.open, o.streaming = false, false
	o.room.Broadcast()
}

func (o *outgoing) clear() {
	o.packer.clear()
	o.answers, o.dumps = nil, nil
}

// seal marks the end of what is queued: all of it is sent before anything that comes later.
func (o *outgoing) seal() {
	var first []*batch
	for len(o.answers) > 0 || len(o.dumps) > 0 {
		first = append(first, o.nextCallback())
	}
	o.packer.seal(first)
}

// hold is how long the writer leaves the only queued request to be joined; 0 to go on.
func (o *outgoing) hold(now time.Time) time.Duration {
	left := o.window.left(now)
	o.holds = left > 0 && o.mayWait()
	if !o.holds {
		return 0
	}
	return left
}

// held says whether what is queued may wait until the writer's hold is over, so that nobody wakes it.
func (o *outgoing) held() bool { return o.holds && o.mayWait() }

// mayWait says that nothing has to leave now. A full request has nothing to wait for, nor one that another
// was queued behind, nor one that a caller waits for. Answers and dumps never wait.
func (o *outgoing) mayWait() bool {
	return o.packer.takesMore() && o.packer.bytes <= o.limit && len(o.answers) == 0 && len(o.dumps) == 0
}

// next takes off the request to send now, behind so many unprocessed ones; nil if there is none. Answers
// come before all items that are not sealed: the server waits for them, and their order among the items is
// free.
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

// nextCallback takes off answers to checks, or without any a state dump.
func (o *outgoing) nextCallback() *batch {
	if len(o.answers) > 0 {
		return o.nextAnswers()
	}
	dump := o.dumps[0]
	o.dumps = o.dumps[1:]
	message := &licornev1.UpdateRequest_StateDump{StateDump: dump}
	return &batch{request: &licornev1.UpdateRequest{Message: message}, bytes: len(dump.GetJson())}
}

// nextAnswers takes off as many answers as one request should have: those of the kind of the oldest one
// that come before any of the other kind.
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

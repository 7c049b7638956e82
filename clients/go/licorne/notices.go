package licorne

import (
	"time"

	"google.golang.org/protobuf/proto"

	"licorne.dev/clients/go/licornev1"
)

// maxAfter bounds the time of an answer to a notice; that many milliseconds fit its field.
const maxAfter = 1_000_000 * time.Second

// ReadyToStop answers a notice of preemption: the allocation may be stopped now, or with `after` above
// zero when that time has passed. The latter counts once for each notice, and no further than its
// deadline; it is rounded up to milliseconds. Without an answer the allocation is stopped at the deadline.
//
// The answer is sent behind what earlier calls have queued, so that a Checkpoint before it counts. It is
// dropped with the session: no notice is open after a replay. Nothing is done for an unknown key, and the
// server ignores the answer for an allocation that is not under notice. It returns as UpdateNodes does.
func (c *Client) ReadyToStop(allocationKey string, after time.Duration) error {
	if after < 0 || after > maxAfter {
		return invalid("after", after.String(), "it must lie between 0 and "+maxAfter.String())
	}
	later := uint32((after + time.Millisecond - 1) / time.Millisecond)
	return c.state.update(func(queue *packer) {
		known := c.state.cache.asks[allocationKey]
		if known == nil || queue == nil {
			return
		}
		answer := &licornev1.NoticeAnswer{
			PartitionName:     known.item.GetPartitionName(),
			ApplicationId:     known.item.GetApplicationID(),
			AllocationKey:     allocationKey,
			LaterMilliseconds: later,
		}
		queue.noticeAnswer(answer, proto.Size(answer))
	})
}

// Checkpoint says up to when the work of a running allocation is kept if it is stopped. Preemption compares
// what would be lost, see TagCheckpoint, by which UpdateAllocations says the same. A time in the future
// counts as now; it is rounded down to a second. Nothing is done for a key that is that of no allocation. It
// returns as UpdateNodes does.
func (c *Client) Checkpoint(allocationKey string, at time.Time) error {
	unix, err := unixSeconds("at", at)
	if err != nil {
		return err
	}
	return c.state.update(func(queue *packer) {
		item := c.state.cache.checkpoint(allocationKey, unix)
		if item != nil && queue != nil {
			queue.allocation(item, proto.Size(item))
		}
	})
}

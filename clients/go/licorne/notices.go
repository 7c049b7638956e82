package licorne

import (
	"time"

	"google.golang.org/protobuf/proto"

	"licorne.dev/clients/go/licornev1"
)

// maxAfter is the longest delay in an answer to a notice; it fits into its field in milliseconds.
const maxAfter = 1_000_000 * time.Second

// ReadyToStop answers a notice of preemption: the allocation may be stopped now, or after the given time. The
// server accepts one delay for each notice, up to its deadline; it is rounded up to milliseconds. Without an
// answer the allocation is stopped at the deadline.
//
// The answer is sent after all items of earlier calls, so that an earlier Checkpoint counts. It is dropped
// with the session, because no notice is open after a replay. An unknown key is ignored, and the server
// ignores an allocation without a notice. ReadyToStop waits and returns errors like UpdateNodes.
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

// Checkpoint reports the time up to which the work of a running allocation is saved. Preemption compares the
// work that would be lost. TagCheckpoint is the equivalent for UpdateAllocations. A time in the future counts
// as now; it is rounded down to a second. A key without an allocation is ignored. Checkpoint waits and
// returns errors like UpdateNodes.
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

package licorne

import (
	"google.golang.org/protobuf/proto"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// registration has the registration of the RM for the next hello, and the last one that the server accepted.
// Its messages are replaced, not changed.
type registration struct {
	// next is the registration in the next hello.
	next *si.RegisterResourceManagerRequest
	// accepted is the registration to revert to if the server refuses next; nil if next itself was accepted.
	accepted *si.RegisterResourceManagerRequest
	// said is the registration in the last hello.
	said *si.RegisterResourceManagerRequest
}

// hello returns the registration for a hello.
func (r *registration) hello() *si.RegisterResourceManagerRequest {
	r.said = r.next
	return r.next
}

// change records a configuration that the server has accepted.
func (r *registration) change(queues string, extra map[string]string) {
	r.next = reconfigured(r.next, queues, extra)
	if r.accepted == nil {
		return
	}
	if r.accepted = reconfigured(r.accepted, queues, extra); proto.Equal(r.accepted, r.next) {
		r.accepted = nil
	}
}

// propose records a configuration that the server has not answered.
func (r *registration) propose(queues string, extra map[string]string) {
	if r.accepted == nil {
		r.accepted = r.next
	}
	r.next = reconfigured(r.next, queues, extra)
}

// refuse records a configuration that the server has refused, so that the next hello does not have it.
func (r *registration) refuse(queues string, extra map[string]string) {
	if r.accepted != nil && proto.Equal(r.next, reconfigured(r.next, queues, extra)) {
		r.next, r.accepted = r.accepted, nil
	}
}

// welcomed records that the server has accepted the registration in the last hello.
func (r *registration) welcomed() {
	switch {
	case r.accepted == nil:
	case r.said == r.next:
		r.accepted = nil
	default:
		// A different configuration was proposed since the hello.
		r.accepted = r.said
	}
}

// fallBack records that the server has refused the registration in the last hello. It returns false if that
// had been accepted before, so that there is no other registration to try.
func (r *registration) fallBack() bool {
	if r.accepted == nil || r.said == r.accepted {
		return false
	}
	if r.said == r.next {
		r.next, r.accepted = r.accepted, nil
	}
	return true
}

// reconfigured returns a copy of a registration with another configuration.
func reconfigured(
	from *si.RegisterResourceManagerRequest, queues string, extra map[string]string,
) *si.RegisterResourceManagerRequest {
	to := proto.CloneOf(from)
	to.Config = queues
	if to.ExtraConfig == nil {
		to.ExtraConfig = make(map[string]string, len(extra))
	}
	for name, value := range extra {
		to.ExtraConfig[name] = value
	}
	return to
}

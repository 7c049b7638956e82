package licorne

import (
	"google.golang.org/protobuf/proto"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// registration is what the hellos of a client say of its RM, and what they said that the server
// accepted. Its messages are replaced, not changed.
type registration struct {
	// next is what the next hello says.
	next *si.RegisterResourceManagerRequest
	// accepted is what to go back to if the server refuses `next`; nil while nothing of `next` is in
	// doubt.
	accepted *si.RegisterResourceManagerRequest
	// said is what the last hello said.
	said *si.RegisterResourceManagerRequest
}

// hello is what a hello says now.
func (r *registration) hello() *si.RegisterResourceManagerRequest {
	r.said = r.next
	return r.next
}

// change notes a configuration that the server has accepted.
func (r *registration) change(queues string, extra map[string]string) {
	r.next = reconfigured(r.next, queues, extra)
	if r.accepted == nil {
		return
	}
	if r.accepted = reconfigured(r.accepted, queues, extra); proto.Equal(r.accepted, r.next) {
		r.accepted = nil
	}
}

// propose notes a configuration that the server has not answered.
func (r *registration) propose(queues string, extra map[string]string) {
	if r.accepted == nil {
		r.accepted = r.next
	}
	r.next = reconfigured(r.next, queues, extra)
}

// refuse notes a configuration that the server has refused. The next hello does not say it.
func (r *registration) refuse(queues string, extra map[string]string) {
	if r.accepted != nil && proto.Equal(r.next, reconfigured(r.next, queues, extra)) {
		r.next, r.accepted = r.accepted, nil
	}
}

// welcomed notes that the server has accepted what the hello said.
func (r *registration) welcomed() {
	switch {
	case r.accepted == nil:
	case r.said == r.next:
		r.accepted = nil
	default:
		// Another configuration was proposed since the hello.
		r.accepted = r.said
	}
}

// fallBack notes that the server has refused what the hello said. It returns false if that had been
// accepted before, so that no other hello can help.
func (r *registration) fallBack() bool {
	if r.accepted == nil || r.said == r.accepted {
		return false
	}
	if r.said == r.next {
		r.next, r.accepted = r.accepted, nil
	}
	return true
}

// reconfigured is a registration with another configuration.
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

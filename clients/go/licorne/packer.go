package licorne

import (
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// maxMessageBytes is the maximum size of items in one request; a larger item has its own request. Servers
// accept 8 MiB, but smaller requests block them less.
const maxMessageBytes = 512 * 1024

// batch is a request that is filled, waits to be sent, or waits to be processed.
type batch struct {
	request *licornev1.UpdateRequest
	items   int
	bytes   int
	// removing is true if it has a removal, so that it accepts no more additions.
	removing bool
}

// packer is a queue of requests. Items join the last request as long as their order is preserved.
//
// An item joins the last request if that is not full and has items of the same kind. But an addition does not
// join a request with removals, because the server handles the additions of a request first. All other items
// begin a new request. No item joins an earlier request, so none overtakes another. For cases in all
// languages see clients/conformance/joining.json.
type packer struct {
	// maxItems is the maximum number of items in one request.
	maxItems int
	// items and bytes are the totals of all requests.
	items, bytes int
	batches      []*batch
	// sealed is the number of oldest requests that accept no further items.
	sealed int
}

func (p *packer) node(item *si.NodeInfo, size int) {
	tail := p.tail(size, false, isNodes)
	if tail.request.Message == nil {
		tail.request.Message = &licornev1.UpdateRequest_Nodes{Nodes: &si.NodeRequest{}}
	}
	nodes := tail.request.GetNodes()
	nodes.Nodes = append(nodes.Nodes, item)
}

func (p *packer) newApplication(item *si.AddApplicationRequest, size int) {
	applications := p.applications(size, false)
	applications.New = append(applications.New, item)
}

func (p *packer) removedApplication(item *si.RemoveApplicationRequest, size int) {
	applications := p.applications(size, true)
	applications.Remove = append(applications.Remove, item)
}

func (p *packer) applications(size int, removal bool) *si.ApplicationRequest {
	tail := p.tail(size, removal, isApplications)
	if tail.request.Message == nil {
		tail.request.Message = &licornev1.UpdateRequest_Applications{Applications: &si.ApplicationRequest{}}
	}
	return tail.request.GetApplications()
}

func (p *packer) allocation(item *si.Allocation, size int) {
	allocations := p.allocations(size, false)
	allocations.Allocations = append(allocations.Allocations, item)
}

func (p *packer) release(item *si.AllocationRelease, size int) {
	allocations := p.allocations(size, true)
	if allocations.Releases == nil {
		allocations.Releases = &si.AllocationReleasesRequest{}
	}
	allocations.Releases.AllocationsToRelease = append(allocations.Releases.AllocationsToRelease, item)
}

func (p *packer) allocations(size int, removal bool) *si.AllocationRequest {
	tail := p.tail(size, removal, isAllocations)
	if tail.request.Message == nil {
		tail.request.Message = &licornev1.UpdateRequest_Allocations{Allocations: &si.AllocationRequest{}}
	}
	return tail.request.GetAllocations()
}

func (p *packer) noticeAnswer(answer *licornev1.NoticeAnswer, size int) {
	tail := p.tail(size, false, isNoticeAnswers)
	if tail.request.Message == nil {
		tail.request.Message = &licornev1.UpdateRequest_NoticeAnswers{NoticeAnswers: &licornev1.NoticeAnswers{}}
	}
	answers := tail.request.GetNoticeAnswers()
	answers.Answers = append(answers.Answers, answer)
}

func isNodes(r *licornev1.UpdateRequest) bool         { return r.GetNodes() != nil }
func isApplications(r *licornev1.UpdateRequest) bool  { return r.GetApplications() != nil }
func isAllocations(r *licornev1.UpdateRequest) bool   { return r.GetAllocations() != nil }
func isNoticeAnswers(r *licornev1.UpdateRequest) bool { return r.GetNoticeAnswers() != nil }

// tail returns the last request, or a new one, for an item of a size and kind.
func (p *packer) tail(size int, removal bool, kind func(*licornev1.UpdateRequest) bool) *batch {
	var last *batch
	if len(p.batches) > p.sealed {
		last = p.batches[len(p.batches)-1]
	}
	fits := last != nil && kind(last.request) && (removal || !last.removing) &&
		last.items < p.maxItems && last.bytes+size <= maxMessageBytes
	if !fits {
		last = &batch{request: &licornev1.UpdateRequest{}}
		p.batches = append(p.batches, last)
	}
	last.removing = removal
	last.items++
	last.bytes += size
	p.items++
	p.bytes += size
	return last
}

// takesMore returns whether there is only one request, and it is not full.
func (p *packer) takesMore() bool {
	return len(p.batches) == 1 && p.sealed == 0 && p.batches[0].items < p.maxItems && p.bytes < maxMessageBytes
}

// take removes and returns the oldest request; nil if there is none.
func (p *packer) take() *batch {
	if len(p.batches) == 0 {
		return nil
	}
	oldest := p.batches[0]
	p.batches[0] = nil
	p.batches = p.batches[1:]
	p.sealed = max(0, p.sealed-1)
	p.items -= oldest.items
	p.bytes -= oldest.bytes
	return oldest
}

// seal fixes all requests, and puts some others before them.
func (p *packer) seal(first []*batch) {
	for _, b := range first {
		p.bytes += b.bytes
	}
	p.batches = append(first, p.batches...)
	p.sealed = len(p.batches)
}

func (p *packer) clear() {
	p.batches, p.items, p.bytes, p.sealed = nil, 0, 0, 0
}

package licorne

import "github.com/apache/yunikorn-scheduler-interface/lib/go/si"

// CheckNodes returns the *InvalidError with which UpdateNodes would refuse the request, or nil. It stores and
// sends nothing. A caller with its own books can check a request before applying it there.
func (c *Client) CheckNodes(request *si.NodeRequest) error {
	var few [8]int
	_, err := c.config.sizesOfNodes(few[:0], request)
	return err
}

// CheckApplications checks a request for UpdateApplications, like CheckNodes.
func (c *Client) CheckApplications(request *si.ApplicationRequest) error {
	var few [8]int
	_, err := c.config.sizesOfApplications(few[:0], request)
	return err
}

// CheckAllocations checks a request for UpdateAllocations, like CheckNodes.
func (c *Client) CheckAllocations(request *si.AllocationRequest) error {
	var few [8]int
	_, err := c.config.sizesOfAllocations(few[:0], request)
	return err
}

// sizesOfNodes appends the encoded size of each node; the error says why the request cannot be sent.
func (c *Config) sizesOfNodes(sizes []int, request *si.NodeRequest) ([]int, error) {
	if err := checkRequest(request == nil, request.GetRmID(), c.RMID); err != nil {
		return nil, err
	}
	return checkItems(sizes, "nodes", request.GetNodes(), checkNode)
}

// sizesOfApplications appends the encoded sizes of the new applications, then of the removed ones.
func (c *Config) sizesOfApplications(sizes []int, request *si.ApplicationRequest) ([]int, error) {
	if err := checkRequest(request == nil, request.GetRmID(), c.RMID); err != nil {
		return nil, err
	}
	sizes, err := checkItems(sizes, "new", request.GetNew(), checkNewApplication)
	if err != nil {
		return nil, err
	}
	return checkItems(sizes, "remove", request.GetRemove(), checkRemovedApplication)
}

// sizesOfAllocations appends the encoded sizes of the asks and allocations, then of the releases.
func (c *Config) sizesOfAllocations(sizes []int, request *si.AllocationRequest) ([]int, error) {
	if err := checkRequest(request == nil, request.GetRmID(), c.RMID); err != nil {
		return nil, err
	}
	sizes, err := checkItems(sizes, "allocations", request.GetAllocations(), checkAllocation)
	if err != nil {
		return nil, err
	}
	releases := request.GetReleases().GetAllocationsToRelease()
	return checkItems(sizes, "releases.allocationsToRelease", releases, checkRelease)
}

package licorne

import "github.com/apache/yunikorn-scheduler-interface/lib/go/si"

// CheckNodes returns the *InvalidError with which UpdateNodes would refuse the request, and nil if it
// would not. It notes nothing and sends nothing. Whoever keeps books of its own checks a request
// before it notes any of it.
func (c *Client) CheckNodes(request *si.NodeRequest) error {
	var few [8]int
	_, err := c.config.sizesOfNodes(few[:0], request)
	return err
}

// CheckApplications is to UpdateApplications what CheckNodes is to UpdateNodes.
func (c *Client) CheckApplications(request *si.ApplicationRequest) error {
	var few [8]int
	_, err := c.config.sizesOfApplications(few[:0], request)
	return err
}

// CheckAllocations is to UpdateAllocations what CheckNodes is to UpdateNodes.
func (c *Client) CheckAllocations(request *si.AllocationRequest) error {
	var few [8]int
	_, err := c.config.sizesOfAllocations(few[:0], request)
	return err
}

// sizesOfNodes appends the encoded size of each node, or says why the request cannot be sent.
func (c *Config) sizesOfNodes(sizes []int, request *si.NodeRequest) ([]int, error) {
	if err := checkRequest(request == nil, request.GetRmID(), c.RMID); err != nil {
		return nil, err
	}
	return checkItems(sizes, "nodes", request.GetNodes(), checkNode)
}

// sizesOfApplications does the same for the new applications, and for the removed ones after them.
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

// sizesOfAllocations does the same for the asks and allocations, and for the releases after them.
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

package licorne

import (
	"cmp"
	"maps"
	"slices"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// appKey is the partition and the id of an application.
type appKey struct{ partition, id string }

// knownApp is an application that has not ended.
type knownApp struct {
	key     appKey
	request *si.AddApplicationRequest
	// number is the position in the order of submission, in which a replay sends applications.
	number uint64
	// unanswered counts the submissions that the server has not answered in this session.
	unanswered int
	// accepted is true if the server has accepted it in this session.
	accepted bool
	// told is true if the handlers have received an acceptance, which they receive once.
	told bool
	// toldState is the last state that the handlers have received.
	toldState string
	// heard is the last state that the server has reported during a replay.
	heard *si.UpdatedApplication
}

// endedStates are the states in which the server forgets an application.
var endedStates = map[string]bool{"Completed": true, "Failed": true, "Expired": true}

// addApp records a submission. The server rejects the submission of an application that it has.
func (c *cache) addApp(item *si.AddApplicationRequest) {
	key := appKey{c.partition(item.GetPartitionName()), item.GetApplicationID()}
	known := c.applications[key]
	if known == nil {
		c.count++
		known = &knownApp{key: key, number: c.count}
		c.applications[key] = known
		c.namesakes[key.id] = append(c.namesakes[key.id], known)
	}
	known.unanswered++
	if !known.accepted && !known.told {
		known.request = item
	}
}

// removeApp records the removal of an application with its asks and allocations.
func (c *cache) removeApp(item *si.RemoveApplicationRequest) {
	key := appKey{c.partition(item.GetPartitionName()), item.GetApplicationID()}
	known := c.applications[key]
	if known == nil {
		return
	}
	for ask := range c.byApp[key] {
		c.expectRelease(c.asks[ask])
	}
	c.forgetApp(known)
}

// forgetApp removes an application and its asks from the cache.
func (c *cache) forgetApp(known *knownApp) {
	delete(c.applications, known.key)
	same := slices.DeleteFunc(c.namesakes[known.key.id], func(other *knownApp) bool { return other == known })
	if len(same) == 0 {
		delete(c.namesakes, known.key.id)
	} else {
		c.namesakes[known.key.id] = same
	}
	for ask := range c.byApp[known.key] {
		c.drop(c.asks[ask])
	}
}

// runs returns whether an application has an allocation, so that a replay forces its acceptance.
func (c *cache) runs(known *knownApp) bool {
	for ask := range c.byApp[known.key] {
		if c.asks[ask].place(c) != "" {
			return true
		}
	}
	return false
}

// waiting returns the applications with this id that the server has not accepted in this session, oldest
// first. The server answers in the order of the requests, so its next answer is for the first application.
func (c *cache) waiting(id string) []*knownApp {
	same := c.namesakes[id]
	if len(same) == 1 {
		if same[0].accepted {
			return nil
		}
		return same
	}
	var waiting []*knownApp
	for _, known := range same {
		if !known.accepted {
			waiting = append(waiting, known)
		}
	}
	return waiting
}

// appAccepted applies an acceptance. It returns true if the handlers should receive it.
func (c *cache) appAccepted(id string) bool {
	waiting := c.waiting(id)
	if len(waiting) == 0 {
		return !c.replaying
	}
	known := waiting[0]
	for _, other := range waiting {
		if c.runs(other) {
			known = other
			break
		}
	}
	news := !known.told
	known.unanswered--
	known.accepted, known.told = true, true
	return news
}

// appRejected applies a rejection. An accepted application is retained, because the rejection is for a
// repetition. A running application is always accepted, so the rejection is for a namesake.
func (c *cache) appRejected(id string) {
	waiting := c.waiting(id)
	if len(waiting) == 0 {
		return
	}
	known := waiting[0]
	for _, other := range waiting {
		if !c.runs(other) {
			known = other
			break
		}
	}
	known.unanswered--
	if known.unanswered <= 0 {
		c.forgetApp(known)
	}
}

// doubtful returns the ids of which one response accepts an application and rejects another, if neither runs.
// They cannot be distinguished, so both are retained: otherwise the accepted one could be missing in the next
// replay. In that replay the server rejects the other one again, which is harmless.
func (c *cache) doubtful(response *si.ApplicationResponse) map[string]bool {
	if len(response.GetAccepted()) == 0 || len(response.GetRejected()) == 0 {
		return nil
	}
	doubtful := make(map[string]bool)
	for _, accepted := range response.GetAccepted() {
		idle := 0
		for _, known := range c.waiting(accepted.GetApplicationID()) {
			if !c.runs(known) {
				idle++
			}
		}
		if idle > 1 {
			doubtful[accepted.GetApplicationID()] = true
		}
	}
	return doubtful
}

// appState applies a new state. It returns true if the handlers should receive it now. A replay repeats all
// states; those that differ are passed to the handlers at its end.
func (c *cache) appState(updated *si.UpdatedApplication) bool {
	same := c.namesakes[updated.GetApplicationID()]
	for _, known := range same {
		if c.replaying {
			known.heard = updated
		} else {
			known.toldState = updated.GetState()
		}
	}
	// Among namesakes it is unknown which application has ended. If one of them is not accepted yet, it was
	// submitted again, and its predecessor has ended.
	over := endedStates[updated.GetState()]
	if over && len(same) == 1 && same[0].accepted {
		told := same[0].toldState
		c.forgetApp(same[0])
		return !c.replaying || told != updated.GetState()
	}
	return !c.replaying || len(same) == 0
}

func sortedApps(apps map[appKey]*knownApp) []*knownApp {
	return slices.SortedFunc(maps.Values(apps), func(a, b *knownApp) int { return cmp.Compare(a.number, b.number) })
}

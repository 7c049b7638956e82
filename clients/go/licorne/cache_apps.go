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
	// number rises with every application that is submitted; a replay sends them in this order.
	number uint64
	// unanswered counts the submissions that the server has not answered in this session.
	unanswered int
	// accepted says whether the server has accepted it in this session.
	accepted bool
	// told says whether the handlers have been told of an acceptance; they are told once.
	told bool
	// toldState is the state that the handlers were told last.
	toldState string
	// heard is what the server said last of its state during a replay.
	heard *si.UpdatedApplication
}

// endedStates are the states in which the server forgets an application.
var endedStates = map[string]bool{"Completed": true, "Failed": true, "Expired": true}

// addApp notes a submission. The server rejects that of an application which it has.
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

// removeApp notes the removal of an application with all that it has.
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

// forgetApp forgets an application and its asks.
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

// runs says whether an application has an allocation. A replay forces it then, so it is accepted.
func (c *cache) runs(known *knownApp) bool {
	for ask := range c.byApp[known.key] {
		if c.asks[ask].place(c) != "" {
			return true
		}
	}
	return false
}

// waiting are the applications of an id that the server has not accepted in this session, oldest
// first. It answers in the order of the requests, so its next answer is about the first of them.
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

// appAccepted applies an answer of the server. It says whether the handlers are to be told.
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

// appRejected applies an answer of the server. An accepted application stays: what was rejected is
// its repetition. One that runs is accepted, so that the rejection is of a namesake.
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

// doubtful are the ids of which one response accepts an application and rejects another, while
// neither runs. Nobody knows which is which, so both stay known: to forget the accepted one would
// leave it out of the next replay. There the other one is rejected again, which does no harm.
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

// appState applies a new state. It says whether the handlers are to be told now: a replay repeats
// the states, and those that differ are told at its end.
func (c *cache) appState(updated *si.UpdatedApplication) bool {
	same := c.namesakes[updated.GetApplicationID()]
	for _, known := range same {
		if c.replaying {
			known.heard = updated
		} else {
			known.toldState = updated.GetState()
		}
	}
	// With namesakes nobody knows which of them has ended. One that is not accepted yet was
	// submitted again, and the end is that of its predecessor.
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

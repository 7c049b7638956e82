package licorne

import (
	"regexp"
	"slices"
	"time"
)

const (
	// mostTold is how many addresses of other members are kept.
	mostTold = 16
	// longestTold is how long such an address may be: a name of DNS with a port.
	longestTold = 260
	// passedOver is for how long an address without a server is passed over, if there is another one: longer
	// than most leases, after which another member serves what the lost one did.
	passedOver = 15 * time.Second
)

var hostPort = regexp.MustCompile(`^(\[[0-9A-Za-z:.%_-]+\]|[0-9A-Za-z._-]+):[0-9]{1,5}$`)

// addresses says which address to dial next, in the order of the contract. A round begins where the client
// was welcomed last. The addresses that the caller gave follow, and then those of the other members, as that
// member told them.
type addresses struct {
	given []string
	// mayDial is asked about what servers tell.
	mayDial func(string) bool
	told    []string
	// home is where the client was welcomed last, and current the address to dial.
	home, current string
	// left is what follows in this round.
	left []string
	// redirectedBy is the address that has redirected us to the current one; empty if none has.
	redirectedBy string
	// silent has the times until which addresses are passed over, as no server answered there.
	silent map[string]time.Time
}

func newAddresses(given []string, mayDial func(string) bool) *addresses {
	return &addresses{
		given: given, mayDial: mayDial, home: given[0], current: given[0], left: given[1:],
		silent: map[string]time.Time{},
	}
}

// round is every known address once, in the order of a round.
func (a *addresses) round() []string {
	all := []string{a.home}
	for _, address := range slices.Concat(a.given, a.told) {
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

// welcomed notes that the server at the current address serves us, and the other members that it tells.
func (a *addresses) welcomed(told []string) {
	a.home, a.redirectedBy = a.current, ""
	delete(a.silent, a.current)
	a.tell(told)
}

// tell takes the addresses of the other members in place of those before. What is no host:port or too long
// is left out, and so is what comes behind the first ones.
func (a *addresses) tell(told []string) {
	a.told = nil
	for _, address := range told[:min(len(told), mostTold)] {
		if len(address) <= longestTold && hostPort.MatchString(address) && a.mayDial(address) {
			a.told = append(a.told, address)
		}
	}
	known := a.round()
	for address := range a.silent {
		if !slices.Contains(known, address) {
			delete(a.silent, address)
		}
	}
}

// redirected goes on where the server has sent us.
func (a *addresses) redirected(to string) {
	if a.redirectedBy == "" {
		a.redirectedBy = a.current
	}
	a.current = to
}

// lost begins a round: the stream that was welcomed has ended.
func (a *addresses) lost() { a.begin(a.round()) }

// leave is the same for a server that has said that it is about to stop: it comes last.
func (a *addresses) leave(now time.Time) {
	all := a.round()
	a.begin(append(a.living(all[1:], now), all[0]))
}

// failed goes on to the next address: there was no welcome. It returns true if that is to be dialed at once.
// answered says that there is a server. Who has redirected us knows best where to send us next.
func (a *addresses) failed(now time.Time, answered bool) bool {
	all := a.round()
	if answered {
		delete(a.silent, a.current)
	} else if slices.Contains(all, a.current) {
		a.silent[a.current] = now.Add(passedOver)
	}
	if a.redirectedBy != "" {
		a.current, a.redirectedBy = a.redirectedBy, ""
		return false
	}
	if len(a.left) > 0 {
		a.current, a.left = a.left[0], a.left[1:]
		return !answered
	}
	if living := a.living(all, now); len(living) > 0 {
		all = living
	}
	a.begin(all)
	return false
}

// refused forgets the current address if only another server has told it, and returns true if so: it may be
// anybody's by now. Follow by failed.
func (a *addresses) refused() bool {
	if a.redirectedBy != "" || a.current == a.home || slices.Contains(a.given, a.current) {
		return false
	}
	at := slices.Index(a.told, a.current)
	if at >= 0 {
		a.told = slices.Delete(a.told, at, at+1)
	}
	return at >= 0
}

func (a *addresses) living(all []string, now time.Time) []string {
	var found []string
	for _, address := range all {
		if !a.silent[address].After(now) {
			found = append(found, address)
		}
	}
	return found
}

func (a *addresses) begin(all []string) {
	a.redirectedBy = ""
	a.current, a.left = all[0], all[1:]
}

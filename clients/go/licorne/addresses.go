package licorne

import (
	"regexp"
	"slices"
	"time"
)

const (
	// mostTold is the maximum number of retained addresses of other members.
	mostTold = 16
	// longestTold is the maximum length of such an address: a DNS name with a port.
	longestTold = 260
	// passedOver is how long an address without a server is skipped, if there is another address. It is longer
	// than most leases, after which another member serves the RMs of the lost one.
	passedOver = 15 * time.Second
)

var hostPort = regexp.MustCompile(`^(\[[0-9A-Za-z:.%_-]+\]|[0-9A-Za-z._-]+):[0-9]{1,5}$`)

// addresses determines the address to dial next, in the order of the contract. A round begins with the
// address of the last welcome. The addresses given by the caller follow, and then those of other members, in
// the order of the server.
type addresses struct {
	given []string
	// mayDial returns whether an address named by a server may be dialed.
	mayDial func(string) bool
	told    []string
	// home is the address of the last welcome, and current the address to dial.
	home, current string
	// left has the remaining addresses of this round.
	left []string
	// redirectedBy is the address that redirected the client to the current one; empty if none did.
	redirectedBy string
	// silent has the times until which addresses without a server are skipped.
	silent map[string]time.Time
}

func newAddresses(given []string, mayDial func(string) bool) *addresses {
	return &addresses{
		given: given, mayDial: mayDial, home: given[0], current: given[0], left: given[1:],
		silent: map[string]time.Time{},
	}
}

// round returns every known address once, in the order of a round.
func (a *addresses) round() []string {
	all := []string{a.home}
	for _, address := range slices.Concat(a.given, a.told) {
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

// welcomed records a welcome from the current address, with the addresses of other members.
func (a *addresses) welcomed(told []string) {
	a.home, a.redirectedBy = a.current, ""
	delete(a.silent, a.current)
	a.tell(told)
}

// tell replaces the addresses of other members. Addresses that are no host:port, too long, or beyond mostTold
// are left out.
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

// redirected makes the address of a redirect the current one.
func (a *addresses) redirected(to string) {
	if a.redirectedBy == "" {
		a.redirectedBy = a.current
	}
	a.current = to
}

// lost begins a round after the end of a welcomed stream.
func (a *addresses) lost() { a.begin(a.round()) }

// leave begins a round in which the current address is last, because its server is about to stop.
func (a *addresses) leave(now time.Time) {
	all := a.round()
	a.begin(append(a.living(all[1:], now), all[0]))
}

// failed switches to the next address after a stream without a welcome; after a redirect, to the redirecting
// one. It returns true if that address should be dialed at once. answered is true if there is a server.
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

// refused drops the current address if only another server has named it, because it may now belong to any
// program; it returns true if it was dropped. The caller must then call failed.
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

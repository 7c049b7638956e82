package licorne

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func all(string) bool { return true }

// dialed are the addresses of the next tries, each of which is answered without a welcome.
func dialed(a *addresses, now time.Time, number int) []string {
	var found []string
	for range number {
		found = append(found, a.current)
		a.failed(now, true)
	}
	return found
}

// A round begins where the client was welcomed last, and has every address once.
func TestOrderOfAddresses(t *testing.T) {
	now := time.Now()
	a := newAddresses([]string{"a:1", "b:1"}, all)
	a.failed(now, true)
	a.welcomed([]string{"c:1", "a:1", "d:1"})
	a.lost()
	if found := dialed(a, now, 5); !slices.Equal(found, []string{"b:1", "a:1", "c:1", "d:1", "b:1"}) {
		t.Fatal(found)
	}
	a.welcomed([]string{"c:1"})
	a.leave(now)
	if found := dialed(a, now, 3); !slices.Equal(found, []string{"b:1", "c:1", "a:1"}) {
		t.Fatal(found)
	}
}

// Only a whole round without a server is followed by a wait, and the dead do not hold up the living.
func TestAddressesWithoutServer(t *testing.T) {
	now := time.Now()
	a := newAddresses([]string{"a:1", "b:1", "c:1"}, all)
	for _, atOnce := range []bool{true, true, false, true, true, false, true} {
		if a.failed(now, false) != atOnce {
			t.Fatal("the wrong try waits")
		}
	}
	if found := dialed(a, now, 4); !slices.Equal(found, []string{"b:1", "c:1", "b:1", "c:1"}) {
		t.Fatal(found)
	}
	if found := dialed(a, now.Add(passedOver), 4); !slices.Equal(found, []string{"b:1", "c:1", "a:1", "b:1"}) {
		t.Fatal(found)
	}
}

// A failure behind a redirect brings back to who has redirected.
func TestFailureBehindRedirect(t *testing.T) {
	now := time.Now()
	a := newAddresses([]string{"a:1", "b:1"}, all)
	a.redirected("c:1")
	a.redirected("d:1")
	if a.failed(now, false) || a.current != "a:1" {
		t.Fatal(a.current)
	}
	a.redirected("d:1")
	a.welcomed(nil)
	a.lost()
	if found := dialed(a, now, 3); !slices.Equal(found, []string{"d:1", "a:1", "b:1"}) {
		t.Fatal(found)
	}
}

// What a server tells is bounded, sound, and gets no token in the clear.
func TestToldAddresses(t *testing.T) {
	config := Config{Token: func() (string, error) { return "", nil }}
	a := newAddresses([]string{"127.0.0.1:1"}, config.mayDial)
	var many []string
	for number := range 1000 {
		many = append(many, fmt.Sprintf("localhost:%d", number+1))
	}
	a.tell(many)
	if found := a.round(); len(found) != 1+mostTold {
		t.Fatal(found)
	}
	a.tell([]string{
		"unix:/run/x", "dns:///localhost:1", "localhost", "localhost:1,localhost:2", "localhost:1 ", "",
		"example.org:1", strings.Repeat("x", longestTold) + ":1", "[::1]:1",
	})
	if found := a.round(); !slices.Equal(found, []string{"127.0.0.1:1", "[::1]:1"}) {
		t.Fatal(found)
	}
}

// Only an address that nobody but a server has named may be somebody else's by now.
func TestRefusalAtToldAddress(t *testing.T) {
	a := newAddresses([]string{"a:1"}, all)
	a.welcomed([]string{"b:1"})
	a.lost()
	if a.refused() {
		t.Fatal("a given address is forgotten")
	}
	a.redirected("b:1")
	if a.refused() {
		t.Fatal("a redirect is forgotten")
	}
	dialed(a, time.Now(), 2)
	if a.current != "b:1" || !a.refused() || len(a.round()) != 1 {
		t.Fatal(a.current, a.round())
	}
}

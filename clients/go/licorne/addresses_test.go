package licorne

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func all(string) bool { return true }

// dialed returns the addresses of the next attempts, each of which is answered without a welcome.
func dialed(a *addresses, now time.Time, number int) []string {
	var found []string
	for range number {
		found = append(found, a.current)
		a.failed(now, true)
	}
	return found
}

// A round begins at the address of the last welcome, and has every address once.
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

// The client waits only after a whole round without a server, and skips addresses without a server.
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

// After a failure at a redirect's address, the client returns to the redirecting address.
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

// Addresses from a server are limited in number and length, well-formed, and get no token without TLS.
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

// Only an address that only a server has named is dropped after a refusal.
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

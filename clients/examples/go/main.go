// The example RM in Go: over a session with the Go client, or over the three streams of si.v1 on bare stubs.
package main

import (
	"log"
	"os"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: example HOST:PORT session|si [restart]")
	}
	run := map[string]func(string, bool) error{"session": overSession, "si": overSi}[os.Args[2]]
	if run == nil {
		log.Fatalf("%q is neither session nor si", os.Args[2])
	}
	if err := run(os.Args[1], len(os.Args) > 3); err != nil {
		log.Fatal(err)
	}
}

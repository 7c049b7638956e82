// Command check parses the files in deploy/ that are for other programs, in the same way as those programs,
// and refuses what they would silently ignore:
//
//	check compose FILE          a Compose file, by the published specification
//	check kubernetes FILE...    manifests: unknown fields, wrong types, unknown kinds
//	check kustomize FOLDER      prints the result of a kustomization
package main

import (
	"fmt"
	"os"
)

var commands = map[string]func([]string) error{
	"compose":    compose,
	"kubernetes": kubernetes,
	"kustomize":  kustomize,
}

func main() {
	if len(os.Args) < 3 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: check compose|kubernetes|kustomize PATH...")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

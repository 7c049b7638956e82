// Command check reads what deploy/ has for others as those others read it, and refuses what they
// would leave out in silence:
//
//	check compose FILE          a composition, by the published specification
//	check kubernetes FILE...    manifests: unknown fields, wrong types, a kind that nobody knows
//	check kustomize FOLDER      prints what a kustomization makes
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

package main

import (
	"context"
	"fmt"

	"github.com/compose-spec/compose-go/v2/cli"
)

// compose loads a composition: its schema, and that all it names is there. Variables of the
// environment are not used, so that it is the same everywhere.
func compose(paths []string) error {
	options, err := cli.NewProjectOptions(paths, cli.WithName("licorne"))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	fmt.Printf("%d services\n", len(project.Services))
	return nil
}

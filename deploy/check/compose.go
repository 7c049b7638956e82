package main

import (
	"context"
	"fmt"

	"github.com/compose-spec/compose-go/v2/cli"
)

// compose loads a Compose file, and checks its schema and its references. Environment variables are not used,
// so that the result is the same everywhere.
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

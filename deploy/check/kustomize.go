package main

import (
	"errors"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize builds a kustomization, and prints the result.
func kustomize(paths []string) error {
	if len(paths) != 1 {
		return errors.New("one folder was expected")
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), paths[0])
	if err != nil {
		return err
	}
	text, err := made.AsYaml()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}

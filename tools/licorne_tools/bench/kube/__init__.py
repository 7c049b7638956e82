"""Schedulers of Kubernetes on one control plane, in turn: the same pods, created at the same pace.

`lines` are what is measured, `measure` makes a run, `calls` reads the API server's metrics, and `report` has
the tables. The load is a program in Go (`clients/go/shimtest/cmd/kubeload`), as it must not cost much.
"""

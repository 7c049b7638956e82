"""Schedulers of Kubernetes on one control plane, in turn: the same pods, created at the same rate.

`lines` has the measurements, `measure` makes a run, `calls` reads the API server's metrics, and `report` has
the tables. The load is a program in Go (`clients/go/shimtest/cmd/kubeload`), for its low cost.
"""

"""Schedulers of Kubernetes in turn on one control plane, with equal pods that are created at an equal rate.

`lines` has the measurements, `measure` makes a run, `calls` reads the API server's metrics, and `report` has
the tables. The load is a program in Go (`clients/go/shimtest/cmd/kubeload`), for its low cost.
"""

"""A control plane of Kubernetes on loopback, without kubelets: etcd, API server, controllers, and KWOK.

`programs` builds programs from Kubernetes' Go modules, `processes` starts and ends them, `plane` is the whole
control plane with a kubeconfig, `api` is a client for objects as JSON, and `schedulers` has the schedulers:
the shim with Licorne, the shim with the older core, and kube-scheduler. `command` is `make kube`.
"""

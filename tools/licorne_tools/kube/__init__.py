"""A Kubernetes control plane on loopback, without kubelets: etcd, API server, controllers, and KWOK.

`programs` builds programs from Kubernetes' Go modules, and `processes` starts and ends them. `plane` is the
control plane with a kubeconfig, and `api` a client for objects as JSON. `schedulers` has the shim with
Licorne, the shim with the older core, and kube-scheduler. `command` is `make kube`.
"""

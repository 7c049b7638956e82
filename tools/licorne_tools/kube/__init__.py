"""A control plane of Kubernetes on loopback, without kubelets: etcd, API server, controllers, and KWOK.

`programs` builds what Kubernetes publishes as Go modules, `processes` starts and ends it, `plane` has
the whole with a kubeconfig, `api` is a client for objects as JSON, and `schedulers` are what binds
pods: the shim with Licorne, the shim with the older core, and kube-scheduler. `make kube` is `command`.
"""

"""The backend `kubernetes`: Leases and config maps in one namespace of a cluster."""

from licorne_server.store.coordination.kubernetes.store import KubernetesStore

__all__ = ["STORE", "KubernetesStore"]

STORE = KubernetesStore

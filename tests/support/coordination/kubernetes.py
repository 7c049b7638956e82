"""Members' access to an API server, played or real."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from licorne_server.process.coordination import Coordination
from licorne_server.store.coordination.kubernetes import KubernetesStore
from licorne_server.store.coordination.kubernetes.access import ClusterAccess
from support.coordination.api_cluster import NAMESPACE
from support.coordination.api_server import TOKEN
from support.coordination.backends import LONG

REREAD = 0.2


def kubeconfig(folder: Path, url: str, token: str = TOKEN) -> Path:
    """A file with access to the server, in the form of kubectl. JSON is YAML."""
    file = folder / "kubeconfig"
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": token}}],
    }
    file.write_text(json.dumps(written))
    return file


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        """Start at a fixed time."""
        self.now = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


class KubernetesBackend:
    """Members' access to a namespace."""

    def __init__(self, config: Path, namespace: str = NAMESPACE) -> None:
        """Use the credentials of a kubeconfig."""
        self._access = ClusterAccess(environ={"KUBECONFIG": str(config)})
        self._namespace = namespace

    def open(
        self,
        lease: float = LONG,
        clock: Callable[[], float] = time.monotonic,
        *,
        reread: float = REREAD,
        name: str = "test",
    ) -> KubernetesStore:
        """The access of one more member of a deployment."""
        coordination = Coordination(backend="kubernetes", prefix=f"{self._namespace}/{name}", lease=lease)
        return KubernetesStore(coordination, self._access, clock, reread)

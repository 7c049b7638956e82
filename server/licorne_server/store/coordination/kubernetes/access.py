"""Credentials for a cluster: the service account of a pod, or a kubeconfig.

The client library, `kubernetes_asyncio`, is part of the extra `kubernetes`. It takes a second of CPU and 75
MB to load, so only members that use it load it. It is used for credentials and transport; every response is
read by this package, because the library bounds neither its size nor its time.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from licorne_server.process.settings import SettingsError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder with the service account of a pod."""

_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The locations of the credentials for a cluster."""

    account: Path = ACCOUNT
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def in_cluster(self) -> bool:
        """True for a pod with a service account."""
        return _HOST in self.environ and _PORT in self.environ

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that is used outside a cluster."""
        return Path(self.environ.get("KUBECONFIG", "") or "~/.kube/config").expanduser()

    def check(self) -> None:
        """Load the library and check for credentials, before a server starts.

        Raises:
            SettingsError: the client library or the credentials are missing.
        """
        try:
            # Imported here, because the import takes longer than a short lease, so no call may wait for it.
            import_module("kubernetes_asyncio")
        except ImportError as error:
            raise SettingsError(
                f"coordination.store: the client library of Kubernetes cannot be loaded ({error}): "
                "pip install kubernetes-asyncio"
            ) from error
        if self.in_cluster:
            for name in ("token", "ca.crt"):
                if not (self.account / name).is_file():
                    raise SettingsError(
                        f"coordination.store: the pod has no {self.account / name}; "
                        "its service account must be mounted (automountServiceAccountToken: true)"
                    )
        elif not self.kubeconfig.is_file():
            raise SettingsError(
                f"coordination.store: this is no pod, and there is no kubeconfig {self.kubeconfig}"
            )

    def namespace(self, given: str) -> str:
        """The given namespace, or else the namespace of the pod.

        Raises:
            SettingsError: no namespace is given, and there is no pod.
        """
        if given:
            return given
        file = self.account / "namespace"
        if not self.in_cluster or not file.is_file():
            raise SettingsError(
                "coordination.store: kubernetes://NAMESPACE/NAME was expected outside of a pod"
            )
        return file.read_text(encoding="utf-8").strip()

    async def connect(self) -> Any:
        """A client of the library with the current credentials.

        Raises:
            Exception: any error of the library about the credentials.
        """
        from kubernetes_asyncio import client, config

        configuration = client.Configuration()
        if self.in_cluster:
            load: Any = config.load_incluster_config
            load(
                client_configuration=configuration,
                token_filename=str(self.account / "token"),
                cert_filename=str(self.account / "ca.crt"),
                environ=self.environ,
            )
        else:
            await config.load_kube_config(
                config_file=str(self.kubeconfig), client_configuration=configuration, persist_config=False
            )
        return client.ApiClient(configuration)

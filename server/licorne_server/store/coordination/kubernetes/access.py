"""The way into a cluster: the service account of a pod, or a kubeconfig.

The client library, `kubernetes_asyncio`, is of the extra `kubernetes`. It takes a second of CPU and 75 MB
to load, so it is loaded by members that use it alone. It is used for credentials and transport; every
response is read here, because the library bounds neither its size nor its time.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from licorne_server.process.settings import SettingsError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder in which a pod finds its service account."""

_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where credentials are."""

    account: Path = ACCOUNT
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def in_cluster(self) -> bool:
        """True for a pod with a service account."""
        return _HOST in self.environ and _PORT in self.environ

    @property
    def kubeconfig(self) -> Path:
        """The file that is used outside of a cluster."""
        return Path(self.environ.get("KUBECONFIG", "") or "~/.kube/config").expanduser()

    def check(self) -> None:
        """Load the library and look for credentials, before a server starts.

        Raises:
            SettingsError: the client library or the credentials are missing.
        """
        try:
            # Here, as no call may wait for it: it takes longer than a short lease.
            import_module("kubernetes_asyncio")
        except ImportError as error:
            raise SettingsError(
                f"--coordination kubernetes://... needs a client library, which cannot be loaded ({error}): "
                "pip install 'licorne-server[kubernetes]'"
            ) from error
        if self.in_cluster:
            for name in ("token", "ca.crt"):
                if not (self.account / name).is_file():
                    raise SettingsError(
                        f"--coordination kubernetes://...: the pod has no {self.account / name}; "
                        "its service account must be mounted (automountServiceAccountToken: true)"
                    )
        elif not self.kubeconfig.is_file():
            raise SettingsError(
                f"--coordination kubernetes://...: this is no pod of a cluster, and there is no kubeconfig "
                f"{self.kubeconfig}"
            )

    def namespace(self, given: str) -> str:
        """The namespace: the one that was given, or that of the pod.

        Raises:
            SettingsError: there is neither.
        """
        if given:
            return given
        file = self.account / "namespace"
        if not self.in_cluster or not file.is_file():
            raise SettingsError(
                "--coordination kubernetes://NAMESPACE/NAME: outside of a pod name the namespace"
            )
        return file.read_text(encoding="utf-8").strip()

    async def connect(self) -> Any:
        """A client of the library, with the credentials as they are now.

        Raises:
            Exception: whatever the library raises about them.
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

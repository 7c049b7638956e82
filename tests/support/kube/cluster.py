"""A control plane that a test drives: namespaces, queues, a scheduler, and the check of all records."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from licorne import State
from licorne_tools.kube.api import Api, ApiRefused, Json
from licorne_tools.kube.plane import Plane, PlaneOptions, running_plane
from licorne_tools.kube.programs import API_SERVER
from licorne_tools.kube.schedulers import NAMESPACE, Scheduler, SchedulerKind, begin
from support.kube.books import check_books
from support.kube.ledger import AUDIT_POLICY, Ledger, ledger
from support.kube.workloads import pod

NODES = 4
NODE = {"cpu": "4", "memory": "16Gi", "pods": "20"}
QUEUES = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
"""The path of the config map of the queues."""


@dataclass(slots=True)
class Cluster:
    """A control plane with nodes, its ledger, and the scheduler that runs on it, if any."""

    plane: Plane
    ledger: Ledger
    _scheduler: Scheduler | None = None

    @property
    def api(self) -> Api:
        """A client with the rights of the administrator."""
        return self.plane.api

    @property
    def scheduler(self) -> Scheduler:
        """The running scheduler; there must be one."""
        assert self._scheduler is not None
        return self._scheduler

    @asynccontextmanager
    async def scheduled(
        self, queues: str = "", *, kind: SchedulerKind = SchedulerKind.LICORNE, kubeconfig: Path | None = None
    ) -> AsyncIterator[Scheduler]:
        """Run a scheduler with these queues inside the block."""
        await self.configure(queues, kind)
        self._scheduler = await begin(self.plane, kind, kubeconfig=kubeconfig)
        try:
            yield self._scheduler
        finally:
            await self._scheduler.stop(self.plane)
            self._scheduler = None

    async def configure(self, queues: str, kind: SchedulerKind = SchedulerKind.LICORNE) -> None:
        """Write the config map of the queues; without queues it is empty.

        A new pod makes the shim with Licorne read it. The older shim reads it every second.
        """
        data = {"service.schedulingInterval": "50ms"} if kind is SchedulerKind.OLDER else {}
        if queues:
            data["queues.yaml"] = queues
        item = {"metadata": {"name": "yunikorn-configs"}, "data": data}
        try:
            await self.api.create(QUEUES, item)
        except ApiRefused:
            await self.api.replace(f"{QUEUES}/yunikorn-configs", item)

    @asynccontextmanager
    async def namespace(self, name: str, **annotations: str) -> AsyncIterator[str]:
        """A namespace whose pods are admitted inside the block, and deleted at its end.

        Annotations are those of the shim, without their prefix, and with `_` for a full stop.
        """
        noted = {f"yunikorn.apache.org/{key.replace('_', '.')}": text for key, text in annotations.items()}
        await self.api.create("/api/v1/namespaces", {"metadata": {"name": name, "annotations": noted}})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        async with aclosing(self.api.watch(accounts, fieldSelector="metadata.name=default")) as changes:
            async for _, item in changes:
                if item["kind"] == "ServiceAccount" and item["metadata"].get("name"):
                    break
        try:
            yield name
        finally:
            await self._empty(name)

    async def _empty(self, name: str) -> None:
        # The namespace is deleted first, so that no pods are created any more.
        await self.api.delete(f"/api/v1/namespaces/{name}")
        await self.api.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds=0)
        await self.ledger.until(lambda: not self.all_of(name), f"the namespace {name} is empty")

    def running(self, namespace: str, prefix: str = "") -> list[str]:
        """The names of the running pods, optionally of those with the prefix."""
        return [
            one["metadata"]["name"]
            for one in self.all_of(namespace, prefix)
            if one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
        ]

    def bound(self, namespace: str) -> list[str]:
        """The names of the pods that have a node."""
        return [one["metadata"]["name"] for one in self.all_of(namespace) if one["spec"].get("nodeName")]

    def all_of(self, namespace: str, prefix: str = "") -> list[Json]:
        """All pods of a namespace, including ended ones, optionally those with the prefix."""
        return [
            one
            for one in self.ledger.pods.values()
            if one["metadata"]["namespace"] == namespace and one["metadata"]["name"].startswith(prefix)
        ]

    def on(self, node: str) -> list[str]:
        """The names of the pods on a node."""
        pods = self.ledger.pods.values()
        return [one["metadata"]["name"] for one in pods if one["spec"].get("nodeName") == node]

    async def settle(self, namespace: str) -> None:
        """Wait until a tiny pod has run, so that all earlier ones were processed."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        await self.api.create(path, pod("marker", "0"))
        await self.ledger.until(lambda: self.running(namespace, "marker"), "the marker runs")
        await self.api.delete(f"{path}/marker")
        await self.ledger.until(lambda: not self.all_of(namespace, "marker"), "the marker has gone")

    async def check(self, *, whole: bool = True) -> None:
        """Check that each pod was bound once, no node is overbooked, and Licorne has the same state.

        The log of a killed API server lacks some binds; then it is not `whole`.

        Raises:
            AssertionError: There are differences, which the error lists.
        """
        if self.scheduler.target:
            async with State(self.scheduler.target) as state:
                await check_books(self.ledger, state, self.scheduler.name)
        self.ledger.check(self.scheduler.name, whole=whole)


@asynccontextmanager
async def running_cluster(
    folder: Path, flags: Mapping[str, list[str]] | None = None, nodes: int = NODES
) -> AsyncIterator[Cluster]:
    """Run a control plane with nodes and the scheduler's namespace inside the block.

    The folder receives the audit log; `flags` are those of programs, by their names.
    """
    policy, audit = folder / "audit.yaml", folder / "audit.log"
    policy.write_text(json.dumps(AUDIT_POLICY))
    audit.touch()
    flags = dict(flags or {})
    flags[API_SERVER] = [
        *flags.get(API_SERVER, []),
        f"--audit-policy-file={policy}",
        f"--audit-log-path={audit}",
    ]
    async with running_plane(PlaneOptions(flags=flags)) as plane:
        await plane.add_nodes(nodes, capacity=NODE)
        await plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        async with ledger(plane.api, audit) as kept:
            yield Cluster(plane, kept)
            assert kept.faults == []

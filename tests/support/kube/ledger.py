"""Rules for the API server's pods: each has one node and was bound once, and no node is overbooked.

Pods and nodes are followed from the start, each change of a pod is checked on arrival, and binds are read
from the audit log of the API server, which has every request.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from licorne_tools.bench.driver import BenchError
from licorne_tools.kube.api import Api, Json
from support.kube.amounts import Amounts, amounts, has_ended, taken_by
from support.patience import PATIENCE

AGAIN_SECONDS = 0.2
"""Seconds before a list or a watch that has failed is repeated."""
TIMED_OUT = 504
"""The API server's status for a time-out, or for a caller that has gone."""
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding"]}],
        },
        {"level": "None"},
    ],
}
"""The policy of an audit log with binds only."""

Change = Callable[[str, Json], None]


@dataclass(frozen=True, slots=True)
class Bind:
    """A request to bind a pod, with the status of its answer."""

    uid: str
    name: str
    node: str
    status: int


class Ledger:
    """All pods and nodes of the API server. Use `ledger` to make one."""

    def __init__(self, api: Api, audit: Path) -> None:
        """`audit` is the audit log of the API server."""
        self.pods: dict[str, Json] = {}
        self.nodes: dict[str, Json] = {}
        self.faults: list[str] = []
        self._api = api
        self._audit = audit
        self._places: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._failure: Exception | None = None

    async def follow(self) -> None:
        """Follow nodes and pods, until the task is cancelled or fails."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow(NODES, self.nodes, self._node_changed))
                group.create_task(self._follow(PODS, self.pods, self._pod_changed))
        except Exception as failure:
            self._failure = failure
            self._changed.set()

    async def until(self, is_true: Callable[[], object], what: str) -> None:
        """Wait until a condition on pods and nodes holds.

        Raises:
            AssertionError: It does not hold in time; the error has `what` and the state of the pods.
            Exception: The error that has ended the ledger.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not is_true():
                    if self._failure is not None:
                        raise self._failure
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what}: not after {PATIENCE:.0f} s; {self._told()}") from None

    def of(self, namespace: str, prefix: str = "") -> list[Json]:
        """The pods of a namespace that have not ended, optionally those with the prefix."""
        return [
            pod
            for pod in self.pods.values()
            if pod["metadata"]["namespace"] == namespace
            and pod["metadata"]["name"].startswith(prefix)
            and not has_ended(pod)
        ]

    def binds(self) -> Iterator[Bind]:
        """All requests to bind a pod so far, in their order."""
        for line in self._audit.read_text().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the API server was killed while it wrote the line
            binding = event.get("requestObject")
            if binding is None:
                continue  # the request timed out before it was read
            yield Bind(
                uid=binding["metadata"].get("uid", ""),
                name=f"{event['objectRef']['namespace']}/{event['objectRef']['name']}",
                node=binding["target"]["name"],
                status=event["responseStatus"]["code"],
            )

    def check(self, scheduler: str, *, whole: bool = True) -> None:
        """Check that pods of the scheduler were bound once, to their present node, and the other rules.

        The log of a killed API server lacks some binds; then it is not `whole`.

        Raises:
            AssertionError: A rule is violated; the error lists all violations.
        """
        binds: defaultdict[str, list[Bind]] = defaultdict(list)
        for bind in self.binds():
            binds[bind.uid].append(bind)
        done = [[bind for bind in of_one if bind.status < 300] for of_one in binds.values()]
        faults = [*self.faults, *(f"bound again: {of_one}" for of_one in done if len(of_one) > 1)]
        for uid, pod in self.pods.items():
            node = pod["spec"].get("nodeName")
            # After a time-out the bind may have happened or not.
            nodes = {bind.node for bind in binds[uid] if bind.status < 300 or bind.status == TIMED_OUT}
            is_told = node in nodes or not (whole or nodes)
            if pod["spec"]["schedulerName"] == scheduler and node is not None and not is_told:
                faults.append(f"{name_of(pod)} is on {node}, and its binds are {binds[uid]}")
        assert not faults, "\n".join(faults)

    def taken(self, node: str) -> Amounts:
        """The total amounts of all pods on a node."""
        total: defaultdict[str, int] = defaultdict(int)
        for pod in self.pods.values():
            if pod["spec"].get("nodeName") == node and not has_ended(pod):
                for name, amount in taken_by(pod).items():
                    total[name] += amount
        return total

    def _pod_changed(self, uid: str, pod: Json) -> None:
        node = pod["spec"].get("nodeName")
        if node is None:
            return
        if (before := self._places.setdefault(uid, node)) != node:
            self.faults.append(f"{name_of(pod)} was on {before}, and is on {node}")
        if node in self.nodes:
            has = amounts(self.nodes[node]["status"]["allocatable"])
            over = {name: amount for name, amount in self.taken(node).items() if amount > has.get(name, 0)}
            if over:
                self.faults.append(f"{node} has {has}, and with {name_of(pod)} its pods take {over}")

    def _node_changed(self, uid: str, node: Json) -> None:
        """Record a node, whose capacity may change."""

    async def _follow(self, path: str, items: dict[str, Json], changed: Change) -> None:
        """Follow a list. Changes missed by a watch are in the next list."""
        by = "uid" if items is self.pods else "name"
        while True:
            try:
                found = await self._api.get(path)
                now = {item["metadata"][by]: item for item in found["items"]}
                for key in items.keys() - now.keys():
                    del items[key]
                for key, item in now.items():
                    self._take(items, key, item, changed)
                version = found["metadata"]["resourceVersion"]
                async for kind, item in self._api.watch(path, resourceVersion=version):
                    if kind == "DELETED":
                        items.pop(item["metadata"][by], None)
                        self._changed.set()
                    elif kind != "BOOKMARK":
                        self._take(items, item["metadata"][by], item, changed)
            except (BenchError, OSError, aiohttp.ClientError, ValueError):
                # The API server is down, or has compacted the changes since the list.
                await asyncio.sleep(AGAIN_SECONDS)

    def _take(self, items: dict[str, Json], key: str, item: Json, changed: Change) -> None:
        items[key] = item
        changed(key, item)
        self._changed.set()

    def _told(self) -> str:
        lines = [
            f"{name_of(pod)} {pod['status'].get('phase')} on {pod['spec'].get('nodeName', 'no node')}"
            for pod in self.pods.values()
        ]
        return "\n".join(["the pods are", *lines])


def name_of(pod: Json) -> str:
    """Namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


@asynccontextmanager
async def ledger(api: Api, audit: Path) -> AsyncIterator[Ledger]:
    """A ledger that is updated inside the block."""
    kept = Ledger(api, audit)
    following = asyncio.create_task(kept.follow())
    try:
        yield kept
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

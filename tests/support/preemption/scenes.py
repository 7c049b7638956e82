"""Small scenes: a few queues, one node, allocations and asks of one core."""

from dataclasses import replace
from typing import Any

from licorne_core.config.schema import QueueSettings
from licorne_core.model.apps.requests import RequestState
from support.preemption.records import Cluster, NodeRecord, QueueRecord, RequestRecord, Size

NOW = 1000.0
A, B = "root.a", "root.b"


def queue(
    path: str, guaranteed: Size | None = None, most: Size | None = None, **settings: Any
) -> QueueRecord:
    """A leaf with these settings."""
    return QueueRecord(path=path, guaranteed=guaranteed, max=most, settings=QueueSettings(**settings))


def parent(
    path: str, guaranteed: Size | None = None, most: Size | None = None, **settings: Any
) -> QueueRecord:
    """A queue that holds queues."""
    return replace(queue(path, guaranteed, most, **settings), is_leaf=False)


def runs(leaf: str, *numbers: int, node: str = "n1", vcore: int = 1, **more: Any) -> list[RequestRecord]:
    """Allocations of one application, the higher the number the younger."""
    return [
        RequestRecord(
            app=f"app-{leaf}",
            key=f"{leaf}-{number}",
            leaf=leaf,
            node=node,
            created=float(number),
            started=float(number),
            **{"size": {"vcore": vcore}, "state": RequestState.ALLOCATED, **more},
        )
        for number in numbers
    ]


def waits(leaf: str, *numbers: int, vcore: int = 1, **more: Any) -> list[RequestRecord]:
    """Asks of one application."""
    return [
        RequestRecord(
            app=f"app-{leaf}",
            key=f"{leaf}-w{number}",
            leaf=leaf,
            created=float(number),
            **{"size": {"vcore": vcore}, **more},
        )
        for number in numbers
    ]


def cluster(
    queues: list[QueueRecord], *requests: list[RequestRecord], vcore: int = 12, **more: Any
) -> Cluster:
    """These queues below root, and one node of that size."""
    return Cluster(
        queues=(parent("root"), *queues),
        **{"nodes": (NodeRecord(name="n1", capacity={"vcore": vcore}),), **more},
        requests=tuple(one for many in requests for one in many),
        now=NOW,
    )

"""Clusters to be drawn, as a server would report them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from licorne.v1.state_pb2 import Partition, Queue, ResourceManager
from licorne_cli.screen.picture import Frame, picture
from licorne_cli.screen.pieces import UNICODE, Glyphs
from licorne_cli.screen.tree import Cluster, Snapshot, totals
from licorne_cli.screen.view import View

NOON = 1_790_000_000.0
GI = 1024**3
CAPACITY = {"vcore": 100_000, "memory": 400 * GI}


def queue(path: str, **fields: Any) -> Queue:
    """A queue that is a leaf and active unless said otherwise; amounts in cores, or by resource."""
    made: dict[str, Any] = {
        "path": path,
        "parent": path.rpartition(".")[0],
        "is_leaf": True,
        "is_managed": True,
        "state": "Active",
    }
    for name, value in fields.items():
        made[name] = {"vcore": int(value * 1000)} if _is_cores(name, value) else value
    return Queue(**made)


AMOUNTS = ("allocated", "guaranteed", "max", "pending", "preempting", "promised")


def _is_cores(name: str, value: Any) -> bool:
    return name in AMOUNTS and not isinstance(value, Mapping)


def root(used: float, capacity: Mapping[str, int] = CAPACITY, **fields: Any) -> Queue:
    """The root of a cluster."""
    return queue("root", is_leaf=False, max=capacity, allocated=used, **fields)


def cluster(
    name: str,
    queues: Sequence[Queue],
    *,
    lost: float = 0.0,
    holds: Iterable[str] = (),
    pending_asks: int = 0,
) -> Cluster:
    """The partition `default` of an RM; its stream is lost since a time, if one is given."""
    partition = Partition(
        name=f"[{name}]default",
        rm_id=name,
        state="Active",
        capacity=queues[0].max,
        nodes=4,
        allocations=12,
        pending_asks=pending_asks,
        holds=list(holds),
    )
    rm = ResourceManager(rm_id=name, connected=not lost, since=int((lost or NOON) * 1e9))
    return Cluster(partition=partition, queues=queues, rm=rm, name=partition.name)


def seen(*clusters: Cluster) -> View:
    """A view of these clusters, as it is at first."""
    view = View()
    view.saw(Snapshot(time=NOON, clusters=clusters))
    return view


def drawn(
    view: View,
    width: int = 80,
    height: int = 24,
    *,
    glyphs: Glyphs = UNICODE,
    failure: str = "",
    has_keys: bool = True,
) -> list[str]:
    """The lines of a screen, without colours."""
    frame = Frame(
        title="licorne top 127.0.0.1:7070",
        status=totals(view.snapshot),
        glyphs=glyphs,
        failure=failure,
        has_keys=has_keys,
    )
    return [line.plain for line in picture(view, frame, width, height)]

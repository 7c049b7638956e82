"""Why asks wait: all waiting asks of a partition, by queue, first failing check, and subject of that check.

The rules are evaluated for each group of asks, so that the reason of an ask equals that of its explanation.
The census, which every scrape reads, uses the last results of the scheduler instead.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from licorne_core.messages.claims import BEHIND_RESERVATION
from licorne_core.messages.reasons import NO_NODE_FITS
from licorne_core.messages.reports import WaitingAsks
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup, waits
from licorne_core.model.apps.requests import ASSUMED, TO_REPLACE, Request
from licorne_core.model.claims import Claim
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import charge
from licorne_core.views.census import REPLACES_PLACEHOLDER, WAITS_FOR_ANSWER, WAITS_FOR_TURN, stops
from licorne_core.views.explain import Obstacle, obstacle, obstacle_to_all, obstacle_to_group, subject_of

STEP = 25
"""Number of groups or asks that are examined before the reader may pause."""

NODES_STEP = 250
"""Number of nodes that are examined before the reader may pause."""

MOST_LOOKS = 200_000
"""Maximum number of comparisons of asks with nodes for one answer, which takes tenths of a second."""

LEAST_NODES = 16
"""Number of nodes with which each class is compared while there are comparisons left."""

UNKNOWN = "other"
"""Cause of asks whose class was not compared with any node."""

NOT_REGISTERED = "the required node is not registered"
"""Cause of asks that require an unknown node."""

_TURN = Obstacle(WAITS_FOR_TURN, "")
_BEHIND = Obstacle(BEHIND_RESERVATION, "")
_ANSWER = Obstacle(WAITS_FOR_ANSWER, "")
_REPLACES = Obstacle(REPLACES_PLACEHOLDER, "")


class _Alike(NamedTuple):
    """Asks of one application and class with one obstacle; None if only nodes can block them."""

    obstacle: Obstacle | None
    app: Application
    ask_class: AskClass
    asks: int
    key: str
    is_parked: bool = False
    """True if the scheduler has found no node for the asks."""
    claim: Claim | None = None
    """The asks' claim on a later start; None if there is none."""


@dataclass(slots=True)
class _Sum:
    """Asks of one row of the answer."""

    app_id: str
    key: str
    asks: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)


_Row = tuple[QueuePath, str, str]
"""Queue, code and subject."""

_Wanted = tuple[AskClass, Claim | None]
"""Class of asks, and their claim on a later start."""


def waiting_asks(partition: Partition) -> Iterator[WaitingAsks | None]:
    """All waiting asks by queue, code and subject, after a None wherever the reader may pause.

    Without a pause, these are all pending asks of one moment. Otherwise later changes may be missed.
    """
    rows: dict[_Row, _Sum] = {}
    only_nodes: dict[_Wanted, list[_Alike]] = {}
    for app in list(partition.applications.values()):
        yield None
        if len(app.requests) == app.allocation_count and not app.assumed_count:
            continue
        for number, alike in enumerate(_of_application(partition, app), 1):
            if alike is not None and alike.obstacle is None:
                only_nodes.setdefault((alike.ask_class, alike.claim), []).append(alike)
            elif alike is not None:
                _add(rows, alike, alike.obstacle)
            if not number % STEP:
                yield None
    yield from _add_those_at_nodes(partition, only_nodes, rows)
    for number, ((queue, code, subject), found) in enumerate(rows.items(), 1):
        yield WaitingAsks(
            queue=queue,
            code=code,
            subject=subject,
            asks=found.asks,
            resources=found.resources,
            causes=found.causes,
            app_id=found.app_id,
            key=found.key,
        )
        if not number % STEP:
            yield None


def _add(rows: dict[_Row, _Sum], alike: _Alike, found: Obstacle | None) -> None:
    code, subject, cause = found or _TURN
    place = (alike.app.queue_path, code, subject)
    row = rows.get(place)
    if row is None:
        row = rows[place] = _Sum(alike.app.app_id, alike.key)
    row.asks += alike.asks
    charge(row.resources, tuple((name, value * alike.asks) for name, value in alike.ask_class.items))
    if cause:
        row.causes[cause] += alike.asks


def _of_application(partition: Partition, app: Application) -> Iterator[_Alike | None]:
    """The waiting asks of an application; asks with a reservation or a claim are yielded individually."""
    context = partition.check_context
    if app.assumed_count or app.replacing_count:
        yield from _placed_soon(app)
    alone: Counter[AskGroup | None] = Counter()
    for request in list(app.reserved.values()):
        if request.is_pending:
            alone[request.group] += 1
            yield _alone(partition, app, request)
    for request in list(app.backing_off.values()):
        if request.reservation is None:
            yield _alone(partition, app, request)
    for claim in list(partition.claims.held):
        for request, _ in claim.members if claim.app is app else ():
            if request.is_pending and request.reservation is None and request.group is not None:
                alone[request.group] += 1
                yield _alone(partition, app, request)
    to_all = obstacle_to_all(context, app) if app.groups else None
    for group in list(app.groups.values()):
        asks = group.waiting - alone[group]
        if asks > 0:
            asking = Asking(app, group)
            found = obstacle_to_group(context, asking, to_all)
            is_parked = found is None and stops(partition, app, group) == NO_NODE_FITS
            yield _Alike(found, app, group.ask_class, asks, _first(group), is_parked)
        else:
            yield None


def _placed_soon(app: Application) -> Iterator[_Alike | None]:
    """Asks that are booked, but that were not reported to the RM as allocations yet."""
    for request in list(app.requests.values()):
        ask = request.ask
        if request.state is ASSUMED:
            yield _Alike(_ANSWER, app, ask.ask_class, 1, ask.key)
        elif request.state in TO_REPLACE:
            yield _Alike(_REPLACES, app, ask.ask_class, 1, ask.key)
        else:
            yield None


def _alone(partition: Partition, app: Application, request: Request) -> _Alike:
    """A pending ask that has a reservation, a claim or a back-off."""
    ask, reservation = request.ask, request.reservation
    found = obstacle(partition.check_context, subject_of(app, request))
    if found is None and reservation is not None and reservation.node_id is not None:
        node = partition.nodes.by_id.get(reservation.node_id)
        if node is not None and node.takes(ask.ask_class, reserved=True):
            found = _TURN
    return _Alike(found, app, ask.ask_class, 1, ask.key, is_parked=True, claim=request.claim)


def _first(group: AskGroup) -> str:
    """Key of the first pending ask of a group that has no reservation and no claim."""
    first = group.first().request
    if first.reservation is first.claim is None:
        return str(first.key)
    asks = (place.request for place in group.heap if waits(place))
    return next((str(one.key) for one in asks if one.reservation is one.claim is None), "")


def _add_those_at_nodes(
    partition: Partition, classes: dict[_Wanted, list[_Alike]], rows: dict[_Row, _Sum]
) -> Iterator[None]:
    """Add the asks that only nodes can block: each class is compared once with each node.

    If there are very many classes and nodes, each class is compared only with some nodes, evenly spread. If
    none of them fits, the state of the scheduler determines whether a node fits.
    """
    nodes = list(partition.nodes.by_id.values())
    stride = -(-len(nodes) // max(LEAST_NODES, MOST_LOOKS // max(1, len(classes)))) or 1
    looks = spent = 0
    for (ask_class, claim), found in classes.items():
        required = ask_class.required_node
        if required is not None:
            node = partition.nodes.by_id.get(required)
            looked_at = [] if node is None else [node]
        else:
            looked_at = nodes[::stride] if looks < 2 * MOST_LOOKS else []
        causes: Counter[str] = Counter()
        fits = False
        for node in looked_at:
            spent += 1
            if not spent % NODES_STEP:
                yield
            refusal = node.refusal(ask_class, holder=claim)
            if refusal is None:
                fits = True
                break
            causes[refusal] += 1
        looks += len(looked_at)
        is_whole = required is not None or len(looked_at) == len(nodes)
        cause = _most_frequent(causes) or (UNKNOWN if required is None else NOT_REGISTERED)
        is_behind = not partition.claims.reasons.isdisjoint(causes)
        short = _BEHIND if is_behind else Obstacle(NO_NODE_FITS, "", cause)
        for alike in found:
            is_short = not fits if is_whole else alike.is_parked
            _add(rows, alike, short if is_short else None)
            spent += 1
            if not spent % NODES_STEP:
                yield


def _most_frequent(causes: Counter[str]) -> str:
    return min(causes, key=lambda cause: (-causes[cause], cause), default="")

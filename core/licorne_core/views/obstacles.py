"""The obstacle of an application's first ask, cheap enough for lists of very many applications.

Codes are those of the census: the rules for whole applications are evaluated again, and a parked ask has a
blocker. Texts need the operands, so they cost more and are computed only for displayed rows.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from licorne_core.messages.reasons import ASK_BACKS_OFF, NO_NODE_FITS
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AllocationKey
from licorne_core.views.census import (
    REPLACES_PLACEHOLDER,
    WAITS_FOR_ANSWER,
    WAITS_FOR_TURN,
    obstacle_of,
    stops,
    stops_all,
)
from licorne_core.views.explain import applications_ahead, asks_ahead, first_failing, subject_of

MOST_GROUPS = 64
"""Maximum number of ask groups of one application that are examined."""

_TEXTS = {
    NO_NODE_FITS: "no node has room for the ask",
    WAITS_FOR_TURN: "no check stops the ask, it waits for its turn",
    WAITS_FOR_ANSWER: "the RM is asked about a node",
    REPLACES_PLACEHOLDER: "a placeholder has to end first",
}
"""Texts of codes without operands."""


class Ahead(NamedTuple):
    """Numbers of asks ahead in the application and of applications ahead in the leaf, and the obstacle."""

    asks: int
    applications: int
    code: str


class FirstObstacle(NamedTuple):
    """Code of the first ask's obstacle (empty if none waits); time since which asks wait; the ask's key."""

    code: str
    since: float = 0.0
    key: str = ""


def first_obstacle(partition: Partition, app: Application) -> FirstObstacle:
    """The obstacle of the first pending ask of an application, among its first `MOST_GROUPS` ask groups.

    Its time is that of the oldest of the first asks of these groups; 0.0 while no ask is pending.
    """
    groups = [group for group in islice(app.groups.values(), MOST_GROUPS) if group.waiting]
    if groups:
        first = min(groups, key=AskGroup.first)
        code = stops(partition, app, first, stops_all(partition, app))
        since = min(group.first().create_time for group in groups)
        return FirstObstacle(code, since, first.first().request.key)
    if app.backing_off:
        places = [request.place for request in islice(app.backing_off.values(), MOST_GROUPS)]
        code = stops_all(partition, app) or ASK_BACKS_OFF
        return FirstObstacle(code, min(place.create_time for place in places), min(places).request.key)
    if app.assumed_count:
        return FirstObstacle(WAITS_FOR_ANSWER)
    return FirstObstacle(REPLACES_PLACEHOLDER if app.replacing_count else "")


def obstacle_text(partition: Partition, app: Application, key: str, code: str) -> str:
    """The obstacle of an ask in words, with its operands; empty if its current code differs from `code`."""
    known = _TEXTS.get(code)
    if known is not None:
        return known
    request = app.requests.get(AllocationKey(key))
    if request is None or not request.is_pending:
        return ""
    check = first_failing(partition.check_context, subject_of(app, request))
    return check.message() if check is not None and check.code == code else ""


def ahead_of(partition: Partition, app: Application, key: str) -> Iterator[Ahead | None]:
    """The position of an ask in its queue, after a None wherever the reader may pause.

    Raises:
        NotFound: there is no such ask, or it is not pending.
    """
    request = app.requests.get(AllocationKey(key))
    if request is None or not request.is_pending:
        raise NotFound(f"application {app.app_id} has no waiting ask {shown(key)}")
    asks = yield from asks_ahead(app, request.place)
    applications = yield from applications_ahead(app)
    yield Ahead(asks, applications, obstacle_of(partition, app, request))

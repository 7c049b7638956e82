"""Contents of the core's objects: the requests of an application, and digests of whole objects."""

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import chain
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import TO_REPLACE, AskPlace, Request, RequestState, is_ask, place_of
from licorne_core.values.asks import Allocation, Ask, Reservation
from licorne_core.values.ids import AllocationKey, NodeId


def attributes_of(thing: object) -> list[str]:
    """The names of all instance attributes of an object, sorted."""
    kinds = type(thing).__mro__
    # A compiled class lists its attributes there, and has neither slots nor a dictionary.
    listed = chain.from_iterable(
        vars(kind).get(names, ()) for kind in kinds for names in ("__slots__", "__mypyc_attrs__")
    )
    found = {*listed, *getattr(thing, "__dict__", ())}
    return sorted(name for name in found if hasattr(thing, name))


def pending(app: Application) -> dict[AllocationKey, Ask]:
    """The asks that wait for a node, without assumed ones."""
    return {request.key: request.ask for request in app.pending()}


def allocations(app: Application) -> dict[AllocationKey, Allocation]:
    """All booked allocations, assumed ones included, in the order of booking."""
    return {request.key: request.allocation for request in app.booked() if request.allocation is not None}


def assumed(app: Application) -> dict[AllocationKey, Allocation]:
    """The assumed allocations: the RM is being asked about their nodes."""
    return {
        key: allocation
        for key, allocation in allocations(app).items()
        if app.requests[key].state is RequestState.ASSUMED
    }


def replacing(app: Application) -> dict[AllocationKey, Request]:
    """The requests that replace a placeholder, and wait for an answer or for the placeholder's end."""
    return {key: request for key, request in app.requests.items() if request.state in TO_REPLACE}


def placed_elsewhere(app: Application) -> dict[AllocationKey, Allocation]:
    """The replacing requests that are booked on another node than their placeholder."""
    return {
        key: request.allocation for key, request in replacing(app).items() if request.allocation is not None
    }


class Kept(NamedTuple):
    """A reserved node, and its reservation."""

    node_id: NodeId
    reservation: Reservation


def reservations(app: Application) -> dict[AllocationKey, Kept]:
    """The nodes reserved for the application's asks."""
    found = {key: request.reservation for key, request in app.reserved.items()}
    return {
        key: Kept(reservation.node_id, reservation)
        for key, reservation in found.items()
        if reservation is not None and reservation.node_id is not None
    }


def is_pending(app: Application, key: str) -> bool:
    """True if the ask waits, and the RM is not being asked about a replacement for it."""
    request = app.requests.get(AllocationKey(key))
    return request is not None and request.is_pending


def waiting(app: Application) -> list[AskPlace]:
    """The requests that are pending in the view of the RM, in order."""
    return sorted(map(place_of, filter(is_ask, app.requests.values())))


_PLAIN = (str, bytes, int, float, bool, type(None), Enum)


def digest_of(thing: object) -> dict[str, object]:
    """The values of everything reachable from an object, by path.

    An object with several paths is represented by its first path.
    """
    found: dict[str, object] = {}
    ways: dict[int, str] = {}
    kept: list[object] = []
    waiting: list[tuple[str, object]] = [("", thing)]
    while waiting:
        way, item = waiting.pop()
        if isinstance(item, _PLAIN):
            found[way] = item
        elif id(item) in ways:
            found[way] = f"as {ways[id(item)]}"
        else:
            ways[id(item)] = way
            # A discarded object might pass its id on to another one.
            kept.append(item)
            parts = list(_parts(item))
            found[way] = f"{type(item).__name__} of {len(parts)}"
            waiting += [(f"{way}{name}", part) for name, part in reversed(parts)]
    return found


def _parts(item: object) -> Iterable[tuple[str, object]]:
    """The parts of an object; code and compiled expressions, which never change, have none."""
    if isinstance(item, Mapping):
        for number, (key, value) in enumerate(item.items()):
            name = f"[{key!r}]" if isinstance(key, _PLAIN) else f"[#{number}]"
            if not isinstance(key, _PLAIN):
                yield f"{name}key", key
            yield name, value
    elif isinstance(item, set | frozenset):
        yield from ((f"{{{number}}}", part) for number, part in enumerate(item))
    elif isinstance(item, Iterable):
        yield from ((f"[{number}]", part) for number, part in enumerate(item))
    elif type(item).__module__.startswith("licorne_core"):
        yield from ((f".{name}", getattr(item, name)) for name in attributes_of(item))

"""Gangs in topology domains (docs/topology.md).

A gang with terms of topology is placed in one decision. Afterwards each member lost with its node is placed
by itself, in the same domain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from support.oracle.backfill import mode
from support.oracle.books import (
    ALLOCATED,
    PLACEHOLDER,
    REPLACED,
    Amounts,
    AppRecord,
    AskRecord,
    Kind,
    NodeRecord,
    add_to,
    total,
)
from support.oracle.checks import refused, takes
from support.oracle.domains import (
    Domain,
    Gang,
    depth_of,
    domain_of,
    domains_at,
    first_packing,
    levels_in,
    levels_of,
    nodes_in,
)
from support.oracle.elastic import Elastic, next_asks, wanted
from support.oracle.elastic import is_member as is_elastic_member
from support.oracle.order import Look, node_key
from support.oracle.terms import NO_ANSWER

MOST_KINDS = 16
FEW_KINDS = 4
"""Number of kinds up to which the core completes its search in the few nodes of a world."""


class Terms(NamedTuple):
    """An application's terms about domains; an empty level stands for all nodes."""

    level: str = ""
    required: bool = False
    size: int = 0
    slice_level: str = ""


@dataclass(eq=False)
class PlaceRecord:
    """The lost place of a member whose node was removed or closed.

    `kept`: room is reserved for it, on `node_id` unless None. The ask `taken_by` waits for an answer there.
    """

    app: AppRecord
    ask: AskRecord
    domain: Domain
    kept: bool = True
    node_id: str | None = None
    taken_by: str | None = None

    @property
    def is_free(self) -> bool:
        """True if no ask is assumed in the place."""
        one = self.app.allocations.get(self.taken_by or "")
        return one is None or not one.assumed


class Together(NamedTuple):
    """A decision: all pending placeholders of an application on their nodes, in one turn."""

    app_id: str
    members: tuple[tuple[str, str], ...]


class GangQuestion(NamedTuple):
    """A question to the RM about nodes for asks of these kinds, before any of them is placed."""

    app_id: str
    nodes: tuple[tuple[str, tuple[str, ...]], ...]


class MemberDecision(NamedTuple):
    """A decision: a node for a member, perhaps in a lost place."""

    app_id: str
    key: str
    node_id: str
    place: PlaceRecord | None


def terms_of(tags: dict[str, str]) -> Terms | None:
    """The terms in the tags, which the worlds never contradict."""
    kind, _, level = tags.get("licorne/topology", "").partition("=")
    written = dict(part.split("=") for part in tags.get("licorne/slice", "").split(",") if part)
    if not (level or written):
        return None
    return Terms(level, kind == "required", int(written.get("size", 0)), written.get("level", ""))


def may_come(terms: Terms | None, elastic: Elastic | None, wanted: Amounts, levels: list[str]) -> bool:
    """True if the terms are valid: for a gang, with existing levels."""
    if elastic is not None and any(wanted.values()):
        return False
    named = [] if terms is None else [name for name in (terms.level, terms.slice_level) if name]
    is_gang = elastic is not None or any(wanted.values())
    return terms is None or (is_gang and all(name in levels for name in named))


def _held(look: Look, app: AppRecord, depth: int) -> list[Domain]:
    """The domains that already have members of the gang."""
    if depth <= 0:
        return []
    members = [one for one in app.allocations.values() if _is_of_gang(app, one.ask)]
    found = [domain_of(levels_in(look), look.nodes[one.node_id], depth) for one in members]
    return [domain for domain in found if domain is not None]


def _is_of_gang(app: AppRecord, ask: AskRecord) -> bool:
    """True if its task group had placeholders, or, without known placeholders, if it has a task group."""
    groups = {one.task_group for one in app.placeholders}
    return ask.task_group in groups if groups else bool(ask.task_group)


# Gangs placed in one decision


def is_whole(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if the ask is placed with all pending placeholders, or with a unit of its elastic gang."""
    if app.elastic is not None:
        return is_elastic_member(app, ask)
    together = app.terms is not None or mode(look.queues) != "off"
    return together and ask.placeholder and first_place(look.places, app, ask) is None


def whole_of(app: AppRecord) -> list[list[AskRecord]]:
    """The pending placeholders by kind, in order; or the next unit of an elastic gang."""
    kinds: dict[Kind, list[AskRecord]] = {}
    placeholders = [ask for ask in app.asks_in_order() if ask.placeholder]
    for ask in placeholders if app.elastic is None else next_asks(app):
        kinds.setdefault(ask.kind, []).append(ask)
    return list(kinds.values())


def as_one(app: AppRecord, ask: AskRecord) -> AskRecord:
    """One ask for the total amounts of the gang."""
    return replace(ask, size=total(one.size for asks in whole_of(app) for one in asks), reservation=None)


def lacks_asks(app: AppRecord) -> bool:
    """True if an announced placeholder, or an ask of a unit, has not arrived."""
    if app.elastic is not None:
        return not 0 < wanted(app) == len(next_asks(app))
    come = total(one.size for asks in whole_of(app) for one in asks)
    shared = come.keys() & app.gang.ask.keys()
    placed = any(one.ask.placeholder and not one.assumed for one in app.allocations.values())
    placed = placed or any(one.fate == REPLACED for one in app.placeholders)
    add_to(come, app.withdrawn)
    return not placed and any(come[name] < app.gang.ask[name] for name in shared)


def place_whole(look: Look, app: AppRecord) -> Together | GangQuestion | None:
    """The nodes of the gang in the smallest domain of the narrowest level that holds it, or a question.

    None without such a domain, and while the RM is asked about nodes for the gang.
    """
    if look.is_asked(app):
        return None
    terms = app.terms or Terms()
    levels, asks = levels_in(look), whole_of(app)
    depth, slice_depth = depth_of(levels, terms.level), depth_of(levels, terms.slice_level)
    if len(asks) > MOST_KINDS or min(depth, slice_depth) < 0:
        return None
    gang = Gang(look, [(kind[0], len(kind)) for kind in asks], terms.size, slice_depth)
    for level in range(depth, (depth if terms.required else 0) - 1, -1):
        held = _held(look, app, level)
        domains = [domain for domain in domains_at(look, level) if domain in held or not held]
        for domain in sorted(domains, key=lambda one: (gang.all_slots(one), one)):
            found = gang.in_domain(domain)
            if found is not None:
                return _ask_first(look, app, asks, found) or _members(app, asks, found)
    return None


def _ask_first(
    look: Look, app: AppRecord, asks: list[list[AskRecord]], found: list[tuple[int, NodeRecord, int]]
) -> GangQuestion | None:
    """The question about the nodes without a result, or None if all have one."""
    unknown: dict[str, list[str]] = {}
    for kind, node, _ in found:
        if look.must_ask(asks[kind][0], node, allocate=False):
            unknown.setdefault(asks[kind][0].key, []).append(node.node_id)
    about = tuple((key, tuple(nodes)) for key, nodes in unknown.items())
    return GangQuestion(app.app_id, about) if about else None


def _members(
    app: AppRecord, asks: list[list[AskRecord]], found: list[tuple[int, NodeRecord, int]]
) -> Together:
    order = [iter(kind) for kind in asks]
    members = [(next(order[kind]).key, node.node_id) for kind, node, number in found for _ in range(number)]
    return Together(app.app_id, tuple(members))


# Domains that could hold a gang


def whole_for(
    app: AppRecord, nodes: dict[str, NodeRecord], properties: dict[str, str]
) -> list[tuple[str, ...]] | None:
    """The attributes whose groups of nodes are to be emptied for a waiting gang with terms.

    They are those of the narrowest level with a domain that would hold the gang if all schedulable nodes were
    empty, and those of its slices. None if no level has one: packing cannot help the gang. The core's search
    has bounded steps and may end early; for many kinds any level counts that would hold each kind alone.
    """
    levels, terms = levels_of(properties), app.terms or Terms()
    depth, slice_depth = depth_of(levels, terms.level), depth_of(levels, terms.slice_level)
    kinds = whole_of(app)
    if not kinds or len(kinds) > MOST_KINDS or min(depth, slice_depth) < 0:
        return None
    members = [one for one in app.allocations.values() if _is_of_gang(app, one.ask)]
    parts = [kinds] if len(kinds) <= FEW_KINDS else [[kind] for kind in kinds]
    found: list[tuple[str, ...]] = []
    for level in range(depth, (depth if terms.required else 0) - 1, -1):
        held = {domain_of(levels, nodes[one.node_id], level) for one in members} - {None} if level else set()
        inside: dict[Domain | None, list[NodeRecord]] = {}
        for node in nodes.values():
            inside.setdefault(domain_of(levels, node, level), []).append(node)
        inside.pop(None, None)
        tried = [there for domain, there in inside.items() if domain in held or not held]
        if any(
            all(_would_hold(there, part, terms.size, levels, slice_depth) for part in parts)
            for there in tried
        ):
            found += [tuple(levels[:down]) for down in (level, slice_depth) if down]
            if len(parts) == 1:
                return found
    return found or None


def _would_hold(
    there: list[NodeRecord], kinds: list[list[AskRecord]], size: int, levels: list[str], slice_depth: int
) -> bool:
    """True if the empty nodes would hold all members, or their slices in domains of the slice level."""
    if not size:
        return _would_fit(there, [(kind[0], len(kind)) for kind in kinds])
    inner: dict[Domain | None, list[NodeRecord]] = {}
    for node in there:
        inner.setdefault(domain_of(levels, node, slice_depth), []).append(node)
    inner.pop(None, None)
    rooms = list(inner.values())
    parts = [(kind[0], number, size) for kind in kinds if (number := len(kind) // size)]
    parts += [(kind[0], 1, rest) for kind in kinds if (rest := len(kind) % size)]
    return (
        first_packing(
            len(rooms),
            tuple(number for _, number, _ in parts),
            lambda room, numbers: _would_fit(
                rooms[room],
                [(ask, number * each) for (ask, _, each), number in zip(parts, numbers, strict=True)],
            ),
        )
        is not None
    )


def _would_fit(there: list[NodeRecord], wanted: list[tuple[AskRecord, int]]) -> bool:
    """True if the schedulable nodes, emptied, would hold these numbers of asks."""
    rooms = [node for node in there if node.schedulable]

    def holds(room: int, numbers: Sequence[int]) -> bool:
        sizes = [ask.size for (ask, _), number in zip(wanted, numbers, strict=True) for _ in range(number)]
        here = all(
            ask.required_node in (None, rooms[room].node_id)
            for (ask, _), number in zip(wanted, numbers, strict=True)
            if number
        )
        return here and rooms[room].holds(total(sizes))

    return first_packing(len(rooms), tuple(number for _, number in wanted), holds) is not None


# Members that are placed one by one


def first_place(places: Sequence[PlaceRecord], app: AppRecord, ask: AskRecord) -> PlaceRecord | None:
    """The first free lost place of the ask's task group."""
    return next(
        (p for p in places if p.app is app and p.ask.task_group == ask.task_group and p.is_free), None
    )


def is_member(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if the ask must be in a domain of its gang, or may use a lost place."""
    if app.terms is None or not _is_of_gang(app, ask):
        return False
    depth = depth_of(levels_in(look), app.terms.level)
    held = app.terms.required and depth > 0 and bool(_held(look, app, depth))
    return held or first_place(look.places, app, ask) is not None


def node_for_member(look: Look, app: AppRecord, ask: AskRecord, place: PlaceRecord | None) -> str | None:
    """The node reserved for the place, or else the first node with room in the gang's domains."""
    if place is not None and place.node_id is not None:
        node = look.nodes[place.node_id]
        if _takes_beside_own(look, node, ask, place.ask.size):
            return node.node_id
    terms = app.terms or Terms()
    held = _held(look, app, depth_of(levels_in(look), terms.level)) if place is None else [place.domain]
    fitting = [node for domain in {*held} for node in nodes_in(look, domain) if takes(look, node, ask)]
    return min(fitting, key=lambda node: node_key(look, node)).node_id if fitting else None


def _takes_beside_own(look: Look, node: NodeRecord, ask: AskRecord, own: Amounts) -> bool:
    """True if the ask fits on the node with the room that is reserved for its own place."""
    kept = look.usage.kept_on[node.node_id]
    add_to(kept, {name: -value for name, value in own.items()})
    fits = takes(look, node, ask)
    add_to(kept, own)
    return fits


def note_lost(app: AppRecord, ask: AskRecord, node: NodeRecord, levels: list[str]) -> PlaceRecord | None:
    """The lost place of a member whose node was removed or closed, or None if none is reserved."""
    if app.terms is None or app.elastic is not None or not _is_of_gang(app, ask) or node.schedulable:
        return None
    depth = depth_of(levels, app.terms.slice_level if app.terms.size else app.terms.level)
    domain = domain_of(levels, node, depth) if depth > 0 else None
    return None if domain is None else PlaceRecord(app, ask, domain)


def keep_places(look: Look) -> list[PlaceRecord]:
    """Reserve room for lost places without a node, the first lost first; return all that gained room.

    Nodes that the RM has refused are skipped; a node without an answer stays reserved.
    """
    found: list[PlaceRecord] = []
    for place in look.places:
        node = None if place.node_id is None else look.nodes.get(place.node_id)
        is_there = node is not None and node.schedulable and not _refuses(node, place.ask)
        if not place.kept:
            continue
        if is_there:
            found.append(place)
            continue
        if node is not None:
            add_to(
                look.usage.kept_on[node.node_id],
                {name: -value for name, value in place.ask.size.items()},
            )
        like = replace(place.ask, predicate=None)
        free = [node for node in nodes_in(look, place.domain) if node.node_id not in look.usage.reserved]
        fitting = [node for node in free if takes(look, node, like) and not _is_out(node, place.ask)]
        place.node_id = fitting[0].node_id if fitting else None
        if fitting:
            add_to(look.usage.kept_on.setdefault(fitting[0].node_id, {}), place.ask.size)
            found.append(place)
    return found


def _is_out(node: NodeRecord, ask: AskRecord) -> bool:
    return refused(node, ask) or refused(node, ask, allocate=False)


def _refuses(node: NodeRecord, ask: AskRecord) -> bool:
    said = [node.results.get((ask.ask_class, allocate), "") for allocate in (True, False)]
    return any(one not in ("", NO_ANSWER) for one in said)


def runs_like(place: PlaceRecord) -> bool:
    """True if a member like the lost one runs, so that a question to the RM can name it."""
    return any(
        one.state in (ALLOCATED, PLACEHOLDER)
        and one.ask.ask_class == place.ask.ask_class
        and one.ask.task_group == place.ask.task_group
        for one in place.app.allocations.values()
    )

"""Gangs in topology domains (docs/topology.md), by brute force: every domain and every packing is tried.

A gang whose members have to be near each other is placed whole. Then each member that is lost with its
node is placed alone, in the domain where it was.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from support.oracle.backfill import mode
from support.oracle.books import REPLACED, Amounts, AppRecord, AskRecord, Kind, NodeRecord, add_to, total
from support.oracle.checks import refused, takes
from support.oracle.order import Look, node_key

MOST_KINDS = 16

Domain = tuple[int, tuple[str, ...]]
"""How many levels down, and the values of the attributes on the way."""


class Terms(NamedTuple):
    """What an application says of domains; an empty level is all nodes."""

    level: str = ""
    required: bool = False
    size: int = 0
    slice_level: str = ""


@dataclass(eq=False)
class PlaceRecord:
    """A place that a member had on a node that is gone or out of use.

    `kept`: its amounts are to be left free for it, on `node_id` if there was room anywhere. `taken_by`
    waits for an answer there.
    """

    app: AppRecord
    ask: AskRecord
    domain: Domain
    kept: bool = True
    node_id: str | None = None
    taken_by: str | None = None

    @property
    def is_free(self) -> bool:
        """True if nobody is about to take it."""
        one = self.app.allocations.get(self.taken_by or "")
        return one is None or not one.assumed


class Place(NamedTuple):
    """So many asks of a kind on a node."""

    kind: Kind
    node: NodeRecord
    number: int


class Together(NamedTuple):
    """All pending placeholders of an application on their nodes, in one go."""

    app_id: str
    members: tuple[tuple[str, str], ...]


class GangQuestion(NamedTuple):
    """The RM is asked about nodes for asks like each of these, before any is placed."""

    app_id: str
    nodes: tuple[tuple[str, tuple[str, ...]], ...]


class MemberDecision(NamedTuple):
    """A member goes to a node, maybe into the place of a lost one."""

    app_id: str
    key: str
    node_id: str
    place: PlaceRecord | None


def levels_of(properties: dict[str, str]) -> list[str]:
    """The levels that are configured for root, the widest first."""
    written = properties.get("topology.levels", "")
    return [name.strip() for name in written.split(",")] if written else []


def terms_of(tags: dict[str, str]) -> Terms | None:
    """What the tags say; worlds write nothing that makes no sense."""
    kind, _, level = tags.get("licorne/topology", "").partition("=")
    written = dict(part.split("=") for part in tags.get("licorne/slice", "").split(",") if part)
    if not (level or written):
        return None
    return Terms(level, kind == "required", int(written.get("size", 0)), written.get("level", ""))


def may_come(terms: Terms | None, wanted: Amounts, levels: list[str]) -> bool:
    """True if the terms are those of a gang, and of levels that there are."""
    named = [] if terms is None else [name for name in (terms.level, terms.slice_level) if name]
    return terms is None or (any(wanted.values()) and all(name in levels for name in named))


# Domains


def _levels(look: Look) -> list[str]:
    return levels_of(look.queues["root"].properties)


def depth_of(levels: list[str], level: str) -> int:
    """How many levels down it is, 0 for all nodes; -1 for one that is not configured."""
    if not level:
        return 0
    return levels.index(level) + 1 if level in levels else -1


def domain_of(levels: list[str], node: NodeRecord, depth: int) -> Domain | None:
    """The domain that the node is in; None without the attribute of that level."""
    path = tuple(node.attributes.get(level, "") for level in levels[:depth])
    return (depth, path) if not depth or path[-1] else None


def _nodes_in(look: Look, domain: Domain) -> list[NodeRecord]:
    levels = _levels(look)
    inside = [node for node in look.nodes.values() if domain_of(levels, node, domain[0]) == domain]
    return sorted(inside, key=lambda node: node_key(look, node))


def _domains(look: Look, depth: int) -> list[Domain]:
    found = {domain_of(_levels(look), node, depth) for node in look.nodes.values()}
    return sorted(domain for domain in found if domain is not None)


def _held(look: Look, app: AppRecord, depth: int) -> list[Domain]:
    """The domains that have members of the gang already."""
    if depth <= 0:
        return []
    members = [one for one in app.allocations.values() if _is_of_gang(app, one.ask)]
    found = [domain_of(_levels(look), look.nodes[one.node_id], depth) for one in members]
    return [domain for domain in found if domain is not None]


def _is_of_gang(app: AppRecord, ask: AskRecord) -> bool:
    """True if it is of a task group that had placeholders, or of any where the oracle saw none."""
    groups = {one.task_group for one in app.placeholders}
    return ask.task_group in groups if groups else bool(ask.task_group)


# Packings


def slots(look: Look, node: NodeRecord, ask: AskRecord) -> int:
    """How many asks like this one the node takes now."""
    if not takes(look, node, ask) or (ask.predicate is not None and refused(node, ask, allocate=False)):
        return 0
    kept = {} if ask.required_node is not None else look.usage.kept_on.get(node.node_id, {})
    available = look.usage.available[node.node_id]
    return min((available.get(name, 0) - kept.get(name, 0)) // value for name, value in ask.size.items())


def first_packing(
    rooms: int, wanted: tuple[int, ...], holds: Callable[[int, Sequence[int]], bool]
) -> list[tuple[int, ...]] | None:
    """Numbers for each room, as many of the first kind as possible in the first room, and so on."""
    dead: set[tuple[int, tuple[int, ...]]] = set()

    def fillings(room: int, left: tuple[int, ...], chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """What the room may have: as many as possible of the first kind first, and so on."""
        if len(chosen) == len(left):
            yield chosen
            return
        for number in range(left[len(chosen)], -1, -1):
            some = (*chosen, number)
            if holds(room, (*some, *(0,) * (len(left) - len(some)))):
                yield from fillings(room, left, some)

    def rest(room: int, left: tuple[int, ...]) -> list[tuple[int, ...]] | None:
        if not any(left):
            return []
        if room == rooms or (room, left) in dead:
            return None
        for numbers in fillings(room, left, ()):
            after = rest(room + 1, tuple(a - b for a, b in zip(left, numbers, strict=True)))
            if after is not None:
                return [numbers, *after]
        dead.add((room, left))
        return None

    return rest(0, wanted)


@dataclass
class Gang:
    """The kinds of pending placeholders of an application, the first to be looked at first.

    What was counted is kept, as nothing changes while a place is sought.
    """

    look: Look
    kinds: list[tuple[AskRecord, int]]
    size: int
    slice_depth: int
    known: dict[tuple[str, int], int] = field(default_factory=dict)
    inside: dict[Domain, list[NodeRecord]] = field(default_factory=dict)
    tried: dict[Any, list[tuple[int, NodeRecord, int]] | None] = field(default_factory=dict)

    def nodes_in(self, domain: Domain) -> list[NodeRecord]:
        """The nodes of a domain, in order."""
        if domain not in self.inside:
            self.inside[domain] = _nodes_in(self.look, domain)
        return self.inside[domain]

    def slots_on(self, node: NodeRecord, kind: int) -> int:
        """Slots of one kind on a node."""
        if (node.node_id, kind) not in self.known:
            self.known[node.node_id, kind] = slots(self.look, node, self.kinds[kind][0])
        return self.known[node.node_id, kind]

    def slots_in(self, domain: Domain, kind: int) -> int:
        """Slots of one kind."""
        return sum(self.slots_on(node, kind) for node in self.nodes_in(domain))

    def all_slots(self, domain: Domain) -> int:
        """Slots of all kinds, each for itself."""
        return sum(self.slots_in(domain, kind) for kind in range(len(self.kinds)))

    def holds(self, node: NodeRecord, kinds: Sequence[int], numbers: Sequence[int]) -> bool:
        """True if the node takes so many of each kind, one kind after the other."""
        left = dict(self.look.usage.available[node.node_id])
        for kind, number in zip(kinds, numbers, strict=True):
            if number > self.slots_on(node, kind):
                return False
            ask = self.kinds[kind][0]
            kept = {} if ask.required_node is not None else self.look.usage.kept_on.get(node.node_id, {})
            wanted = {name: value * number for name, value in ask.size.items()}
            if number and any(left[name] - kept.get(name, 0) < value for name, value in wanted.items()):
                return False
            add_to(left, {name: -value for name, value in wanted.items()})
        return True

    def _may_fit(self, domain: Domain, counts: dict[int, int]) -> bool:
        """False if there are too few slots of a kind, or if all nodes together have too little."""
        nodes = [n for n in self.nodes_in(domain) if any(self.slots_on(n, kind) for kind in counts)]
        left = total(self.look.usage.available[node.node_id] for node in nodes)
        for kind, number in counts.items():
            if number > self.slots_in(domain, kind):
                return False
            add_to(left, {name: -value * number for name, value in self.kinds[kind][0].size.items()})
        return all(value >= 0 for value in left.values()) or any(
            value < 0 for node in nodes for value in self.look.usage.available[node.node_id].values()
        )

    def on_nodes(self, domain: Domain, counts: dict[int, int]) -> list[tuple[int, NodeRecord, int]] | None:
        """Places of so many of each kind, the kind with the fewest slots first."""
        name = (domain, tuple(sorted(counts.items())))
        if name not in self.tried:
            self.tried[name] = self._on_nodes(domain, counts)
        return self.tried[name]

    def _on_nodes(self, domain: Domain, counts: dict[int, int]) -> list[tuple[int, NodeRecord, int]] | None:
        if not self._may_fit(domain, counts):
            return None
        kinds = [kind for kind in sorted(counts, key=lambda k: (self.slots_in(domain, k), k)) if counts[kind]]
        nodes = self.nodes_in(domain)
        found = first_packing(
            len(nodes),
            tuple(counts[kind] for kind in kinds),
            lambda room, numbers: self.holds(nodes[room], kinds, numbers),
        )
        if found is None:
            return None
        return [
            (kind, node, number)
            for node, numbers in zip(nodes, found, strict=False)
            for kind, number in zip(kinds, numbers, strict=True)
            if number
        ]

    def in_domain(self, domain: Domain) -> list[tuple[int, NodeRecord, int]] | None:
        """Places of all members in the domain, slices whole."""
        if not self.size:
            return self.on_nodes(domain, {kind: number for kind, (_, number) in enumerate(self.kinds)})
        slices = list(self._slices(domain))
        rooms = sorted(self._rooms(domain), key=lambda room: (self.all_slots(room), room))

        def counts(numbers: Sequence[int]) -> dict[int, int]:
            found: dict[int, int] = {}
            for (kind, size, _), number in zip(slices, numbers, strict=True):
                found[kind] = found.get(kind, 0) + size * number
            return found

        found = first_packing(
            len(rooms),
            tuple(number for _, _, number in slices),
            lambda room, numbers: self.on_nodes(rooms[room], counts(numbers)) is not None,
        )
        if found is None:
            return None
        return [
            place
            for room, numbers in zip(rooms, found, strict=False)
            for place in self.on_nodes(room, counts(numbers)) or []
        ]

    def _slices(self, domain: Domain) -> Iterator[tuple[int, int, int]]:
        """Kind, size and number of the slices."""
        for kind in sorted(range(len(self.kinds)), key=lambda k: (self.slots_in(domain, k), k)):
            whole, left = divmod(self.kinds[kind][1], self.size)
            yield from [(kind, self.size, whole)] if whole else []
            yield from [(kind, left, 1)] if left else []

    def _rooms(self, domain: Domain) -> list[Domain]:
        """The domains for slices inside of the domain, or itself where it is inside of one."""
        depth, path = domain
        if self.slice_depth <= depth:
            return [domain] if path[self.slice_depth - 1] else []
        return [inner for inner in _domains(self.look, self.slice_depth) if inner[1][:depth] == path]


# Whole gangs


def is_whole(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if the ask is placed with all pending placeholders of its application."""
    together = app.terms is not None or mode(look.queues) != "off"
    return together and ask.placeholder and first_place(look.places, app, ask) is None


def whole_of(app: AppRecord) -> list[list[AskRecord]]:
    """The pending placeholders by kind, in order."""
    kinds: dict[Kind, list[AskRecord]] = {}
    for ask in app.asks_in_order():
        if ask.placeholder:
            kinds.setdefault(ask.kind, []).append(ask)
    return list(kinds.values())


def as_one(app: AppRecord, ask: AskRecord) -> AskRecord:
    """An ask for all that the gang wants."""
    return replace(ask, size=total(one.size for asks in whole_of(app) for one in asks), reservation=None)


def lacks_asks(app: AppRecord) -> bool:
    """True if placeholders were announced for which no ask has come."""
    come = total(one.size for asks in whole_of(app) for one in asks)
    shared = come.keys() & app.gang.ask.keys()
    placed = any(one.ask.placeholder and not one.assumed for one in app.allocations.values())
    placed = placed or any(one.fate == REPLACED for one in app.placeholders)
    return not placed and any(come[name] < app.gang.ask[name] for name in shared)


def place_whole(look: Look, app: AppRecord) -> Together | GangQuestion | None:
    """The places of the gang in the narrowest level and the smallest domain, if there are any.

    None either while the RM is asked about nodes for it.
    """
    if look.is_asked(app):
        return None
    terms = app.terms or Terms()
    levels, asks = _levels(look), whole_of(app)
    depth, slice_depth = depth_of(levels, terms.level), depth_of(levels, terms.slice_level)
    if len(asks) > MOST_KINDS or min(depth, slice_depth) < 0:
        return None
    gang = Gang(look, [(kind[0], len(kind)) for kind in asks], terms.size, slice_depth)
    for level in range(depth, (depth if terms.required else 0) - 1, -1):
        held = _held(look, app, level)
        domains = [domain for domain in _domains(look, level) if domain in held or not held]
        for domain in sorted(domains, key=lambda one: (gang.all_slots(one), one)):
            found = gang.in_domain(domain)
            if found is not None:
                return _ask_first(look, app, asks, found) or _members(app, asks, found)
    return None


def _ask_first(
    look: Look, app: AppRecord, asks: list[list[AskRecord]], found: list[tuple[int, NodeRecord, int]]
) -> GangQuestion | None:
    """The question about the nodes that are not judged, if there are any."""
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


# Members that are placed alone


def first_place(places: Sequence[PlaceRecord], app: AppRecord, ask: AskRecord) -> PlaceRecord | None:
    """The first lost place of its task group that nobody is about to take."""
    return next(
        (p for p in places if p.app is app and p.ask.task_group == ask.task_group and p.is_free), None
    )


def is_member(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if the ask belongs in a domain, or may go into a lost place."""
    if app.terms is None or not _is_of_gang(app, ask):
        return False
    depth = depth_of(_levels(look), app.terms.level)
    held = app.terms.required and depth > 0 and bool(_held(look, app, depth))
    return held or first_place(look.places, app, ask) is not None


def node_for_member(look: Look, app: AppRecord, ask: AskRecord, place: PlaceRecord | None) -> str | None:
    """The node that is kept, or the first of the domains where it belongs."""
    if place is not None and place.node_id is not None:
        node = look.nodes[place.node_id]
        if _takes_beside_own(look, node, ask, place.ask.size):
            return node.node_id
    terms = app.terms or Terms()
    held = _held(look, app, depth_of(_levels(look), terms.level)) if place is None else [place.domain]
    fitting = [node for domain in {*held} for node in _nodes_in(look, domain) if takes(look, node, ask)]
    return min(fitting, key=lambda node: node_key(look, node)).node_id if fitting else None


def _takes_beside_own(look: Look, node: NodeRecord, ask: AskRecord, own: Amounts) -> bool:
    """True if it takes the ask, which may use what is kept there for it."""
    kept = look.usage.kept_on[node.node_id]
    add_to(kept, {name: -value for name, value in own.items()})
    fits = takes(look, node, ask)
    add_to(kept, own)
    return fits


def note_lost(app: AppRecord, ask: AskRecord, node: NodeRecord, levels: list[str]) -> PlaceRecord | None:
    """The place of a member whose node is gone, or takes nothing any more."""
    if app.terms is None or not _is_of_gang(app, ask) or node.schedulable:
        return None
    depth = depth_of(levels, app.terms.slice_level if app.terms.size else app.terms.level)
    domain = domain_of(levels, node, depth) if depth > 0 else None
    return None if domain is None else PlaceRecord(app, ask, domain)


def keep_places(look: Look) -> None:
    """Room is kept for lost places that have none, the first lost first."""
    for place in look.places:
        node = None if place.node_id is None else look.nodes.get(place.node_id)
        if not place.kept or (node is not None and node.schedulable):
            continue
        if node is not None:
            add_to(
                look.usage.kept_on[node.node_id],
                {name: -value for name, value in place.ask.size.items()},
            )
        like = replace(place.ask, predicate=None)
        free = [node for node in _nodes_in(look, place.domain) if node.node_id not in look.usage.reserved]
        fitting = [node for node in free if takes(look, node, like)]
        place.node_id = fitting[0].node_id if fitting else None
        if fitting:
            add_to(look.usage.kept_on.setdefault(fitting[0].node_id, {}), place.ask.size)

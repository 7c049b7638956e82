"""Draws gangs: applications with placeholders, and the real asks that come for their places."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from licorne_core.messages.commands import NewApplication
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AppId, NodeId
from support.oracle.books import Amounts, total
from support.worlds.amounts import TYPES

CREATION_TAG = "yunikorn.apache.org/creationTime"

STYLES = ["Soft", "Soft", "Hard", "hard", "", "Nonsense"]

TIMEOUTS = [2_000, 2_000, 5_000, 5_500, 10_000, 20_000, 20_000, 0, -1, 2**62]
"""Milliseconds that placeholders wait; the last three mean a quarter of an hour."""


DrawMembers = Callable[[str, str, Callable[[], Ask]], list[Ask]]
"""Draws members of a gang: by partition and application, from asks of no gang."""


class TaskGroup(NamedTuple):
    """How many members of which size."""

    name: str
    size: Amounts
    members: int


class GangMaker:
    """Draws the gangs of one RM. `share` of its applications are gangs."""

    def __init__(self, rng: Random, shapes: list[Amounts], share: float) -> None:
        """No gang yet; members have the RM's shapes of ask."""
        self.rng = rng
        self.share = share
        self.shapes = [shape for shape in shapes if min(shape.values()) > 0] or [{"vcore": 500}]
        self.plans: dict[tuple[str, str], list[TaskGroup]] = {}
        self.fresh: list[tuple[str, str]] = []
        self.members: dict[tuple[str, str], list[Ask]] = {}

    def maybe_gang(self, new: NewApplication, now: float) -> NewApplication:
        """The application, as a gang if it is one."""
        rng = self.rng
        if rng.random() >= self.share:
            return new
        groups = [
            TaskGroup(f"g{number}", self._shape(), rng.choice([1, 2, 2, 3, 4]))
            for number in range(rng.choice([1, 1, 1, 2, 3]))
        ]
        self.plans[new.partition, new.app_id] = groups
        self.fresh.append((new.partition, new.app_id))
        wanted = total(group.size for group in groups for _ in range(group.members))
        tags = {**new.tags}
        if rng.random() < 0.2:
            tags[CREATION_TAG] = str(int(now) - rng.choice([0, 1, 4, 30]))
        return replace(
            new,
            tags=tags,
            placeholder_ask=self._said_of(wanted),
            gang_scheduling_style=rng.choice(STYLES),
            execution_timeout=rng.choice(TIMEOUTS),
        )

    def _shape(self) -> Amounts:
        """A size of member: mostly one that fits somewhere."""
        size = self.rng.choice(self.shapes)
        large = any(value > 8 * TYPES[name] for name, value in size.items())
        return {name: value // 100 or 1 for name, value in size.items()} if large else size

    def _said_of(self, wanted: Amounts) -> Amounts:
        """What the application says that its placeholders want; now and then not quite true."""
        dice = self.rng.random()
        if dice < 0.75:
            return wanted
        if dice < 0.85:
            return {name: value // 2 for name, value in wanted.items()}
        if dice < 0.9:
            return {name: value * 3 for name, value in wanted.items()}
        return {**dict(list(wanted.items())[:1]), "other": 1}

    def any_of(self, partition: str) -> str | None:
        """One of the partition's gangs, mostly a recent one."""
        ids = [app_id for name, app_id in self.plans if name == partition]
        if not ids:
            return None
        return ids[-1] if self.rng.random() < 0.4 else self.rng.choice(ids)

    def take_fresh(self) -> tuple[str, str] | None:
        """A partition and a gang in it of which no placeholder was asked for yet, the first."""
        return self.fresh.pop(0) if self.fresh else None

    def placeholders(self, partition: str, app_id: str, draw: Callable[[], Ask]) -> list[Ask]:
        """The gang's placeholders; seldom one too few or too many."""
        rng = self.rng
        found = []
        for group in self.plans[partition, app_id]:
            number = max(0, group.members + rng.choice([0, 0, 0, 0, -1, 1]))
            found += [self._member(app_id, group, draw(), placeholder=True) for _ in range(number)]
        return self._noted(partition, found)

    def reals(self, partition: str, app_id: str, draw: Callable[[], Ask]) -> list[Ask]:
        """Real asks for the gang's places: as many as there are, fewer or more."""
        rng = self.rng
        found = []
        for group in self.plans[partition, app_id]:
            number = rng.randint(0, group.members + 1)
            found += [self._member(app_id, group, draw(), placeholder=False) for _ in range(number)]
        return self._noted(partition, found)

    def again(self, partition: str, app_id: str, node_id: str) -> list[Ask]:
        """A few of the gang's members again, in another size or on a node."""
        rng = self.rng
        known = self.members.get((partition, app_id), [])[-8:]
        return [
            replace(one, node_id=NodeId(node_id))
            if rng.random() < 0.2
            else replace(one, ask_class=self._resized(one))
            for one in known
            if rng.random() < 0.3
        ]

    def reals_of(self, partition: str, app_id: str) -> list[str]:
        """The keys of all real asks that the gang ever had."""
        known = self.members.get((partition, app_id), [])
        return [one.key for one in known if not one.placeholder]

    def _resized(self, ask: Ask) -> AskClass:
        before = ask.ask_class
        factor = self.rng.choice([1, 2, 3])
        size = {name: value * factor // 2 or 1 for name, value in before.resources.items()}
        return AskClass.of(size, before.required_node, before.predicate)

    def _noted(self, partition: str, found: list[Ask]) -> list[Ask]:
        for one in found:
            self.members.setdefault((partition, one.app_id), []).append(one)
        return found

    def _member(self, app_id: str, group: TaskGroup, ask: Ask, *, placeholder: bool) -> Ask:
        """An ask as a member of the group; real ones may be smaller, larger or quite different."""
        rng = self.rng
        name, size = group.name, dict(group.size)
        dice = rng.random()
        if dice < 0.12:
            size = {what: value // 2 or 1 for what, value in size.items()}
        elif dice < 0.22:
            size = {what: value * 2 for what, value in size.items()}
        elif dice < 0.26:
            size = dict(rng.choice(self.shapes))
        if rng.random() < 0.04:
            name = rng.choice(["nobody's", "", "g0"])
        # Placeholders and the real ones after them mostly come without a wish of their own.
        own = rng.random() < 0.3
        ask_class = AskClass.of(size, ask.ask_class.required_node if own else None, ask.ask_class.predicate)
        return replace(
            ask,
            app_id=AppId(app_id),
            ask_class=ask_class,
            priority=ask.priority if own else 0,
            placeholder=placeholder,
            task_group=name,
        )

"""Draws the settings of one RM, gangs, and crowds: full nodes, and asks that may preempt others."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from licorne_core.messages.commands import Command, FailMode, NewApplication, PredicatePolicy, Tick
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AppId, NodeId
from support.core.builders import app, apps, asks, node, nodes, register, reload
from support.oracle.books import Amounts, total
from support.worlds.configs import TYPES, ConfigMaker, text_of

REFUSED = text_of([{"name": "default", "queues": [{"name": "root", "resources": {"max": {}}}]}])
"""A configuration that is always refused, because root must not have a maximum."""


class RmSettings:
    """Draws the partitions of one RM, and their configurations."""

    def __init__(self, rng: Random, rm: str, *, hides: bool, preempts: bool, topology: Random | None) -> None:
        """Draw the constant parts: partitions, the shape of queues, predicates."""
        self.rng = rng
        self.rm = rm
        self.hides = hides
        self.preempts = preempts
        names = ["default", "second"] if rng.random() < 0.3 else ["default"]
        self.creates = rng.random() < 0.4
        self.makers = {
            name: ConfigMaker(
                rng,
                creates=self.creates,
                hides=hides and not self.creates,
                preempts=preempts,
                topology=topology,
            )
            for name in names
        }
        self.predicates = self._policy()

    def registration(self) -> Command:
        """The registration of the RM."""
        return register(self._config(), rm=self.rm, extra=self._extra(), predicates=self.predicates)

    def reload(self) -> Command:
        """A reload with new guarantees and maxima, and sometimes new settings."""
        for maker in self.makers.values():
            maker.resettle()
        if self.rng.random() < 0.1:
            return reload(REFUSED, rm=self.rm)
        return reload(self._config(all_partitions=self.rng.random() < 0.7), rm=self.rm, extra=self._extra())

    def _config(self, *, all_partitions: bool = True) -> str:
        names = list(self.makers) if all_partitions or not self.hides else ["default"]
        return text_of([self.makers[name].partition(name) for name in names])

    def _policy(self) -> PredicatePolicy | None:
        """The RM's policy for predicates; None without predicates."""
        if self.rng.random() < 0.5:
            return None
        fail_mode = self.rng.choice(list(FailMode))
        deadline = self.rng.choice([0.5, 2.0, 6.0])
        judges = self.preempts and self.rng.random() < 0.6
        return PredicatePolicy(deadline=deadline, fail_mode=fail_mode, judges_victims=judges)

    def _extra(self) -> dict[str, str]:
        """The extra configuration, mostly empty, which leaves the previous one in force."""
        text = self.rng.choice(["", "", "", "", "true", "false"])
        return {"stateaware-as-fifo": text} if text else {}

    def partition(self) -> str:
        """One of the RM's own partitions, sometimes by its full name."""
        name = self.rng.choice(list(self.makers))
        return name if self.rng.random() < 0.95 else f"[{self.rm}]{name}"

    def any_partition(self) -> str:
        """A partition that is sometimes unknown, or another RM's."""
        if self.rng.random() < 0.97:
            return self.partition()
        return self.rng.choice(["third", "[rm0]default", "[rm1]default", "[rm]default"])


USERS = [("ann", ["dev"]), ("bob", ["dev", "ops"]), ("cid", ["ops"]), ("dee", [])]

COSTS = ["0", "0.5", "7", "x", "-1"]
"""The declared costs of a second of asks; the last two are invalid."""

DrawAsk = Callable[[str, float, str], Ask]
"""Draws an ask: by partition, time and application."""


class Crowd:
    """The load of one RM. A `share` of its asks may preempt others.

    If the share is large, there are few nodes, and most asks fit on most of them.
    """

    def __init__(self, rng: Random, rm: str, settings: RmSettings, share: float) -> None:
        """Start without applications."""
        self.rng = rng
        self.rm = rm
        self.settings = settings
        self.share = share
        self.is_dense = share > rng.random()
        self.queues: dict[str, dict[str, str]] = {name: {} for name in settings.makers}

    def shape(self) -> Amounts:
        """A size of ask."""
        rng = self.rng
        names = [name for name in TYPES if rng.random() < 0.7] or ["vcore"]
        return {name: TYPES[name] // rng.choice([1, 1, 2, 4]) or 1 for name in names}

    def capacity(self) -> Amounts:
        """A size of node."""
        return {name: self.rng.choice([2, 3, 4]) * amount for name, amount in TYPES.items()}

    def opening(self, fleet: int) -> list[Command]:
        """Add a number of nodes at once, and an application for each leaf."""
        rng = self.rng
        commands: list[Command] = []
        for partition, maker in self.settings.makers.items():
            there = [node(f"n{number}", partition=partition, size=self.capacity()) for number in range(fleet)]
            new = []
            for number, leaf in enumerate(maker.leaves()[:10]):
                user, groups = rng.choice(USERS)
                new.append(app(f"app-{number}", leaf, user=user, groups=groups, partition=partition))
                self.note(partition, f"app-{number}", leaf)
            commands += [nodes(*there, rm=self.rm), apps(*new, rm=self.rm)]
        return commands

    def note(self, partition: str, app_id: str, queue: str) -> None:
        """Record an application, unless its id is in use: then the core rejects it."""
        self.queues[partition].setdefault(app_id, queue)

    def rush(self, partition: str, now: float, draw: DrawAsk) -> list[Command]:
        """Let some applications use all resources, and then applications of another queue ask for theirs."""
        rng = self.rng
        name = partition.rpartition("]")[2]
        queues = self.queues[name]
        known = [*queues.values()]
        if len({*known}) < 2:
            return []
        favoured = self.settings.makers[name].favoured_leaves()
        due = rng.choice([queue for queue in known if queue in favoured] or known)
        greedy = [app_id for app_id, queue in queues.items() if queue != due]
        late = [app_id for app_id, queue in queues.items() if queue == due]
        most, few = rng.choice([4, 8, 16]), rng.choice([1, 3, 6])
        first = [draw(partition, now, rng.choice(greedy)) for _ in range(most)]
        then = [draw(partition, now, rng.choice(late)) for _ in range(few)]
        if rng.random() < 0.6:
            then = [replace(one, create_time=now - 6) for one in then]
        return [
            asks(*first, rm=self.rm),
            Tick(decisions=rng.choice([7, 256])),
            asks(*then, rm=self.rm),
            Tick(decisions=rng.choice([7, 256])),
        ]

    def with_terms(self, wanted: Ask) -> Ask:
        """The ask with its terms of preemption."""
        rng = self.rng
        if not self.share:
            return wanted
        return replace(
            wanted,
            allow_preempt_other=rng.random() < self.share,
            allow_preempt_self=rng.random() < 0.7,
            originator=rng.random() < 0.15,
            tags={"licorne/preemption-cost": rng.choice(COSTS)} if rng.random() < 0.3 else {},
        )


CREATION_TAG = "yunikorn.apache.org/creationTime"

STYLES = ["Soft", "Soft", "Hard", "hard", "", "Nonsense"]

TIMEOUTS = [2_000, 2_000, 5_000, 5_500, 10_000, 20_000, 20_000, 0, -1, 2**62]
"""Timeouts of placeholders in milliseconds; the last three mean a quarter of an hour."""


def _terms(rng: Random) -> dict[str, str]:
    """The topology terms of a gang, rarely with an unknown level."""
    tags = {}
    if rng.random() < 0.75:
        kind, level = rng.choice(["required", "preferred"]), rng.choice(["zone", "rack", "rack"])
        tags["licorne/topology"] = f"{kind}={level if rng.random() < 0.98 else 'slot'}"
    if rng.random() < 0.3:
        tags["licorne/slice"] = f"size={rng.choice([1, 2, 2, 3])},level={rng.choice(['zone', 'rack'])}"
    return tags


DrawMembers = Callable[[str, str, Callable[[], Ask]], list[Ask]]
"""Draws members of a gang, by partition and application, from asks without a gang."""


class TaskGroup(NamedTuple):
    """The number and size of members."""

    name: str
    size: Amounts
    members: int


class GangMaker:
    """Draws the gangs of one RM. A `share` of its applications are gangs."""

    def __init__(
        self, rng: Random, shapes: list[Amounts], share: float, topology: Random | None = None
    ) -> None:
        """Start without a gang; members have the RM's sizes of asks. With `topology` some have terms."""
        self.rng = rng
        self.topology = topology
        self.share = share
        self.shapes = [shape for shape in shapes if min(shape.values()) > 0] or [{"vcore": 500}]
        self.plans: dict[tuple[str, str], list[TaskGroup]] = {}
        self.fresh: list[tuple[str, str]] = []
        self.members: dict[tuple[str, str], list[Ask]] = {}

    def maybe_gang(self, new: NewApplication, now: float) -> NewApplication:
        """The application, which may become a gang."""
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
        if self.topology is not None:
            tags.update(_terms(self.topology))
        return replace(
            new,
            tags=tags,
            placeholder_ask=self._said_of(wanted),
            gang_scheduling_style=rng.choice(STYLES),
            execution_timeout=rng.choice(TIMEOUTS),
        )

    def _shape(self) -> Amounts:
        """A size of a member, mostly one that fits somewhere."""
        size = self.rng.choice(self.shapes)
        large = any(value > 8 * TYPES[name] for name, value in size.items())
        return {name: value // 100 or 1 for name, value in size.items()} if large else size

    def _said_of(self, wanted: Amounts) -> Amounts:
        """The declared total of the application's placeholders, which is sometimes wrong."""
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
        """Take the first gang, with its partition, that has no placeholder ask yet."""
        return self.fresh.pop(0) if self.fresh else None

    def placeholders(self, partition: str, app_id: str, draw: Callable[[], Ask]) -> list[Ask]:
        """The gang's placeholders, rarely with one too few or too many."""
        rng = self.rng
        found = []
        for group in self.plans[partition, app_id]:
            number = max(0, group.members + rng.choice([0, 0, 0, 0, -1, 1]))
            found += [self._member(app_id, group, draw(), placeholder=True) for _ in range(number)]
        return self._noted(partition, found)

    def reals(self, partition: str, app_id: str, draw: Callable[[], Ask]) -> list[Ask]:
        """Real asks for the gang's placeholders: the same number, fewer or more."""
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
        """The keys of all real asks of the gang so far."""
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
        """An ask as a member of the group; real ones may be smaller, larger or entirely different."""
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
        # Placeholders, and the real asks after them, mostly have no required node.
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

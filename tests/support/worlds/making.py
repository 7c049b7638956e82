"""Draws a world: RMs, partitions, queues, and a long script of what happens there."""

import json
from dataclasses import replace
from random import Random

from licorne_core.asks import Ask
from licorne_core.commands import (
    BeginReplay,
    Command,
    EndReplay,
    Hold,
    NodeAction,
    RemoveRm,
    SetHold,
    TerminationType,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.ids import RmId
from support.builders import (
    app,
    apps,
    ask,
    asks,
    node,
    nodes,
    release,
    releases,
    remove_apps,
)
from support.driver import START
from support.worlds.amounts import TYPES, some
from support.worlds.playing import REST, Step
from support.worlds.settings import RmSettings

ENDINGS = [
    TerminationType.STOPPED_BY_RM,
    TerminationType.STOPPED_BY_RM,
    TerminationType.TIMEOUT,
    TerminationType.PREEMPTED_BY_SCHEDULER,
    TerminationType.PLACEHOLDER_REPLACED,
    TerminationType.SCHEDULING_FAILED_ON_RM,
]


PAUSES = [0.001, 0.7, 1.0, 2.5, 2.5, 5.0, 6.0, 31.0, 301.0, 3601.0]
"""Seconds that pass at a time: past reservation ages, silence, back-offs, starts and leases."""

USERS = [("ann", ["dev"]), ("bob", ["dev", "ops"]), ("cid", ["ops"]), ("dee", [])]


def bare(partition: str) -> str:
    """The partition's own name."""
    return partition.rpartition("]")[2]


class RmMaker:
    """Draws the commands of one RM. Names repeat from RM to RM on purpose."""

    def __init__(self, rng: Random, rm: str, *, hides: bool) -> None:
        """Draw its settings and the shapes of ask that its applications use."""
        self.rng = rng
        self.rm = rm
        self.settings = RmSettings(rng, rm, hides=hides)
        self.fleet = rng.choice([2, 4, 7])
        self.shapes = [self._shape() for _ in range(rng.randint(1, 5))]
        self.submitted: dict[str, list[str]] = {name: [] for name in self.settings.makers}
        self.asked: list[tuple[str, str]] = []

    def _predicate(self) -> str | None:
        """What of an ask the RM goes by: often the same, seldom nothing."""
        if self.settings.predicates is None or self.rng.random() < 0.1:
            return None
        return f"opinion {self.rng.choice([0, 0, 0, 1, len(self.asked)])}"

    def _shape(self) -> dict[str, int]:
        """A size of ask; now and then one that fits nowhere."""
        rng = self.rng
        names = [name for name in TYPES if rng.random() < 0.6] or ["vcore"]
        if rng.random() < 0.05:
            return dict.fromkeys(names, rng.choice([0, -1]))
        scale = 100 if rng.random() < 0.1 else 1
        return {name: scale * TYPES[name] // rng.choice([1, 2, 4]) or 1 for name in names}

    # Nodes

    def _node_id(self) -> str:
        return f"n{self.rng.randint(0, self.fleet)}"

    def _capacity(self) -> dict[str, int]:
        rng = self.rng
        sizes = {name: rng.choice([0, 2, 4, 4, 8]) * amount for name, amount in TYPES.items()}
        return {name: size for name, size in sizes.items() if size or rng.random() < 0.3}

    def new_nodes(self) -> UpdateNodes:
        """Nodes appear; those that are there already are refused."""
        rng = self.rng
        kinds = [NodeAction.CREATE] * 5 + [NodeAction.CREATE_DRAIN]
        partition = self.settings.any_partition()
        return nodes(
            *(
                node(self._node_id(), rng.choice(kinds), partition=partition, size=self._capacity())
                for _ in range(rng.randint(1, 6))
            ),
            rm=self.rm,
        )

    def change_node(self) -> UpdateNodes:
        """A node grows, shrinks, drains, comes back or goes."""
        kinds = [
            NodeAction.UPDATE,
            NodeAction.UPDATE,
            NodeAction.DRAIN_NODE,
            NodeAction.DRAIN_TO_SCHEDULABLE,
            NodeAction.DECOMISSION,
        ]
        action = self.rng.choice(kinds)
        capacity = self._capacity() if action is NodeAction.UPDATE else {}
        update = node(self._node_id(), action, partition=self.settings.partition(), size=capacity)
        return nodes(update, rm=self.rm)

    # Applications

    def _app_id(self, partition: str) -> str:
        """Mostly one that was submitted there, if only to be refused."""
        ids = self.submitted.get(bare(partition), [])
        return self.rng.choice(ids) if ids and self.rng.random() < 0.95 else "app-nobody"

    def new_apps(self) -> UpdateApplications:
        """Applications are submitted; some ids are taken, some queues are not there."""
        rng = self.rng
        partition = self.settings.partition()
        name = bare(partition)
        leaves = [*self.settings.makers[name].leaves() * 3, "root.nowhere.at.all"]
        ids = [f"app-{rng.randint(0, 9)}" for _ in range(rng.randint(1, 6))]
        self.submitted[name] += ids
        new = [
            app(
                app_id,
                rng.choice(leaves),
                user=user,
                groups=groups,
                partition=partition,
                tags=self._tags(),
            )
            for app_id in ids
            for user, groups in [rng.choice(USERS)]
        ]
        return apps(*new, rm=self.rm)

    def _tags(self) -> dict[str, str]:
        """Now and then what a namespace has, which counts in queues that placement made."""
        rng = self.rng
        tags = {}
        for name in ("namespace.resourcequota", "namespace.resourceguaranteed"):
            if self.settings.creates and rng.random() < 0.15:
                size = {what: {"value": value} for what, value in some(rng, 0, 4).items()}
                tags[name] = json.dumps({"resources": size})
        if self.settings.creates and rng.random() < 0.1:
            tags["namespace.resourcemaxapps"] = str(rng.randint(0, 2))
        if rng.random() < 0.1:
            tags["application.stateaware.disable"] = "true"
        return tags

    def drop_app(self) -> UpdateApplications:
        """An application is removed with all it has."""
        partition = self.settings.any_partition()
        return remove_apps(self._app_id(partition), rm=self.rm, partition=partition)

    # Asks, allocations and releases

    def new_asks(self, now: float) -> UpdateAllocations:
        """A few asks of a few applications."""
        rng = self.rng
        partition = self.settings.any_partition()
        wanted = [self._ask(partition, now) for _ in range(rng.choice([2, 6, 16]))]
        return asks(*wanted, rm=self.rm)

    def _ask(self, partition: str, now: float) -> Ask:
        rng = self.rng
        app_id, key = self._app_id(partition), f"k{len(self.asked)}"
        if self.asked and rng.random() < 0.05:
            app_id, key = rng.choice(self.asked)
        self.asked.append((app_id, key))
        return ask(
            app_id,
            key if rng.random() < 0.98 else "k0",
            partition=partition,
            priority=rng.choice([0, 0, 0, 1, 5, -3]),
            created=None if rng.random() < 0.6 else now - rng.randint(0, 30),
            on_node=self._node_id() if rng.random() < 0.06 else None,
            required_node=self._node_id() if rng.random() < 0.06 else None,
            predicate=self._predicate(),
            size=rng.choice(self.shapes),
        )

    def foreign(self) -> UpdateAllocations:
        """Another scheduler takes a part of a node, or gives it back."""
        partition, key = self.settings.any_partition(), f"foreign-{self.rng.randint(0, 1)}"
        if self.rng.random() < 0.5:
            return releases(release("", key, partition=partition), rm=self.rm)
        size = self.rng.choice(self.shapes)
        taken = ask("", key, on_node=self._node_id(), partition=partition, size=size)
        return asks(replace(taken, tags={"foreign": "default"}), rm=self.rm)

    def freed(self) -> UpdateAllocations:
        """Releases of keys that may or may not be there."""
        rng = self.rng
        partition = self.settings.any_partition()
        gone = []
        for _ in range(rng.choice([1, 3, 10])):
            app_id, key = "app-nobody", ""
            if self.asked and rng.random() < 0.95:
                app_id, key = rng.choice(self.asked)
            key = "" if rng.random() < 0.03 else key
            gone.append(release(app_id, key, why=rng.choice(ENDINGS), partition=partition))
        return releases(*gone, rm=self.rm)

    def replay(self, now: float) -> list[Command]:
        """A replay with a little inside it, and mostly the right counts."""
        inside = (self.new_nodes(), self.new_apps(), self.new_asks(now))
        counts = EndReplay(
            rm_id=RmId(self.rm),
            nodes=len(inside[0].nodes) + self.rng.choice([0, 0, 0, 0, 1]),
            applications=len(inside[1].new),
            allocations=len(inside[2].asks),
        )
        return [BeginReplay(rm_id=RmId(self.rm)), *inside, counts]

    def hold(self) -> SetHold:
        """The server stops scheduling for the RM, or allows it again."""
        on = self.rng.random() < 0.4
        return SetHold(rm_id=RmId(self.rm), hold=Hold.OUTBOX_FULL, on=on)


class World:
    """A script of steps drawn from a seed: the same seed, the same script."""

    def __init__(self, seed: int, length: int = 40, *, hides: bool = True) -> None:
        """Draw the RMs, then what happens, `length` steps or a few more.

        Without `hides` nothing that is configured is ever left out of a reload.
        """
        self.seed = seed
        self.rng = Random(seed)
        self.now = START
        count = self.rng.choice([1, 1, 2, 3])
        self.rms = [RmMaker(self.rng, f"rm{i}", hides=hides) for i in range(count)]
        self.steps: list[Step] = []
        for rm in self.rms:
            self._add(rm.settings.registration(), rm.new_nodes(), rm.new_apps(), rm.new_apps())
        while len(self.steps) < length:
            self._draw()
        self.steps.append(Step(self.now, REST))

    def _add(self, *commands: Command) -> None:
        self.steps += [Step(self.now, command) for command in commands]

    def _draw(self) -> None:
        """One thing happens: an RM says something, or time passes."""
        dice = self.rng.random()
        rm = self.rng.choice(self.rms)
        if dice < 0.22:
            self._add(rm.new_asks(self.now))
        elif dice < 0.45:
            self._add(Tick(decisions=self.rng.choice([1, 1, 2, 3, 7, 256])))
        elif dice < 0.55:
            self.steps.append(Step(self.now, REST))
        elif dice < 0.64:
            self.now += self.rng.choice(PAUSES)
            self._add(Tick(decisions=self.rng.choice([1, 7])))
        else:
            self._add(*self._rare(rm, dice))

    def _rare(self, rm: RmMaker, dice: float) -> list[Command]:
        """What an RM says less often."""
        if dice < 0.72:
            return [rm.freed()]
        if dice < 0.79:
            return [rm.change_node()]
        if dice < 0.835:
            return [rm.new_nodes()]
        if dice < 0.89:
            return [rm.new_apps()]
        if dice < 0.92:
            return [rm.settings.reload()]
        if dice < 0.935:
            return [rm.drop_app()]
        if dice < 0.96:
            return [rm.foreign(), rm.foreign()]
        if dice < 0.975:
            return [rm.hold()]
        if dice < 0.985:
            return rm.replay(self.now)
        if dice < 0.995:
            return [rm.settings.registration(), rm.new_nodes(), rm.new_apps()]
        gone = RemoveRm(rm_id=RmId(rm.rm))
        return [gone] if dice < 0.997 else [gone, rm.settings.registration(), rm.new_nodes()]

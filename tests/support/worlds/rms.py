"""Draws messages of one RM: nodes, applications, asks, releases, and sometimes invalid ones."""

import json
from dataclasses import replace
from random import Random

from licorne_core.messages.commands import (
    BeginReplay,
    Command,
    EndReplay,
    Hold,
    NodeAction,
    SetHold,
    TerminationType,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.values.asks import Ask
from licorne_core.values.ids import RmId
from support.core.builders import app, apps, ask, asks, node, nodes, release, releases, remove_apps
from support.worlds.configs import TYPES, some
from support.worlds.drawing import USERS, Crowd, DrawMembers, GangMaker, RmSettings

ENDINGS = [
    TerminationType.STOPPED_BY_RM,
    TerminationType.STOPPED_BY_RM,
    TerminationType.TIMEOUT,
    TerminationType.PREEMPTED_BY_SCHEDULER,
    TerminationType.PLACEHOLDER_REPLACED,
    TerminationType.SCHEDULING_FAILED_ON_RM,
]


def bare(partition: str) -> str:
    """The name of the partition without its RM."""
    return partition.rpartition("]")[2]


def some_shape(rng: Random) -> dict[str, int]:
    """The size of an ask, which occasionally fits nowhere."""
    names = [name for name in TYPES if rng.random() < 0.6] or ["vcore"]
    if rng.random() < 0.05:
        return dict.fromkeys(names, rng.choice([0, -1]))
    scale = 100 if rng.random() < 0.1 else 1
    return {name: scale * TYPES[name] // rng.choice([1, 2, 4]) or 1 for name in names}


class RmMaker:
    """Draws the commands of one RM. Different RMs use the same names on purpose."""

    def __init__(
        self,
        rng: Random,
        rm: str,
        *,
        hides: bool,
        gangs: float,
        preempting: float,
        topology: Random | None = None,
    ) -> None:
        """Draw its settings and the sizes of its asks.

        `gangs` is the share of its applications that have placeholders, `preempting` the share of its asks
        that may preempt others. `topology` draws domains, and terms of gangs about them.
        """
        self.rng = rng
        self.rm = rm
        self.topology = topology
        self.settings = RmSettings(rng, rm, hides=hides, preempts=preempting > 0, topology=topology)
        self.crowd = Crowd(rng, rm, self.settings, preempting)
        dense = self.crowd.is_dense
        self.fleet = rng.choice([1, 2, 3] if dense else [2, 4, 7])
        self.shapes = [self.crowd.shape() if dense else some_shape(rng) for _ in range(rng.randint(1, 5))]
        self.submitted: dict[str, list[str]] = {name: [] for name in self.settings.makers}
        self.asked: list[tuple[str, str]] = []
        self.gangs = GangMaker(rng, self.shapes, gangs, topology)

    def _predicate(self) -> str | None:
        """The predicate of an ask: often the same, rarely none."""
        if self.settings.predicates is None or self.rng.random() < 0.1:
            return None
        return f"opinion {self.rng.choice([0, 0, 0, 1, len(self.asked)])}"

    # Nodes

    def _node_id(self) -> str:
        return f"n{self.rng.randint(0, self.fleet)}"

    def _capacity(self) -> dict[str, int]:
        rng = self.rng
        if self.crowd.is_dense and rng.random() < 0.9:
            return self.crowd.capacity()
        sizes = {name: rng.choice([0, 2, 4, 4, 8]) * amount for name, amount in TYPES.items()}
        return {name: size for name, size in sizes.items() if size or rng.random() < 0.3}

    def new_nodes(self) -> UpdateNodes:
        """Add nodes; existing ones are refused."""
        rng = self.rng
        kinds = [NodeAction.CREATE] * 5 + [NodeAction.CREATE_DRAIN]
        partition = self.settings.any_partition()
        return nodes(
            *(
                node(
                    self._node_id(),
                    rng.choice(kinds),
                    partition=partition,
                    attributes=_attributes(rng, self.topology),
                    size=self._capacity(),
                )
                for _ in range(rng.randint(1, 6))
            ),
            rm=self.rm,
        )

    def change_node(self) -> UpdateNodes:
        """Enlarge, shrink, drain, undrain or remove a node."""
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
        """An id of an application, mostly a submitted one, even if it was refused."""
        ids = self.submitted.get(bare(partition), [])
        return self.rng.choice(ids) if ids and self.rng.random() < 0.95 else "app-nobody"

    def new_apps(self, now: float) -> UpdateApplications:
        """Submit applications; some ids are in use, some queues do not exist."""
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
        for each in new:
            self.crowd.note(name, each.app_id, each.queue_name)
        return apps(*(self.gangs.maybe_gang(each, now) for each in new), rm=self.rm)

    def _tags(self) -> dict[str, str]:
        """Sometimes the sizes of a namespace, which apply to created queues."""
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
        """Remove an application with all its asks."""
        partition = self.settings.any_partition()
        return remove_apps(self._app_id(partition), rm=self.rm, partition=partition)

    # Asks, allocations and releases

    def new_asks(self, now: float) -> UpdateAllocations:
        """A few asks of a few applications."""
        rng = self.rng
        partition = self.settings.any_partition()
        wanted = [self.draw(partition, now) for _ in range(rng.choice([2, 6, 16]))]
        return asks(*wanted, rm=self.rm)

    def gang_asks(self, now: float) -> list[Command]:
        """Placeholders of a gang, and the real asks that replace them, at once or later.

        A gang that already has its placeholders gets more placeholders or real asks.
        """
        rng = self.rng
        fresh = self.gangs.take_fresh()
        partition, app_id = fresh or (self.settings.partition(), None)
        app_id = app_id or self.gangs.any_of(partition)
        if app_id is None:
            return []
        commands: list[Command] = []
        if fresh or rng.random() < 0.1:
            commands.append(self._members(self.gangs.placeholders, partition, app_id, now))
            commands += [Tick(decisions=rng.choice([1, 7, 256]))] * rng.choice([0, 1, 1, 2])
        if not commands or rng.random() < 0.6:
            commands.append(self._members(self.gangs.reals, partition, app_id, now))
        if rng.random() < 0.3:
            commands.append(Tick(decisions=rng.choice([1, 7])))
            again = self.gangs.again(partition, app_id, self._node_id())
            commands.append(asks(*again, rm=self.rm))
        return commands

    def _members(self, draw: DrawMembers, partition: str, app_id: str, now: float) -> UpdateAllocations:
        known = len(self.asked)
        wanted = draw(partition, app_id, lambda: self.draw(partition, now))
        self.asked[known:] = [(app_id, ask.key) for ask in wanted]
        return asks(*wanted, rm=self.rm)

    def gang_done(self) -> UpdateAllocations:
        """End all real members of a gang."""
        partition = self.settings.partition()
        app_id = self.gangs.any_of(partition) or "app-nobody"
        keys = self.gangs.reals_of(partition, app_id)[:: self.rng.choice([1, -1, -1])]
        return releases(*(release(app_id, key, partition=partition) for key in keys), rm=self.rm)

    def draw(self, partition: str, now: float, app_id: str | None = None) -> Ask:
        """An ask of the application, or of a random one."""
        rng = self.rng
        app_id, key = app_id or self._app_id(partition), f"k{len(self.asked)}"
        if self.asked and rng.random() < 0.05:
            app_id, key = rng.choice(self.asked)
        self.asked.append((app_id, key))
        wanted = ask(
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
        return self.crowd.with_terms(wanted)

    def foreign(self) -> UpdateAllocations:
        """Let another scheduler use or free a part of a node."""
        partition, key = self.settings.any_partition(), f"foreign-{self.rng.randint(0, 1)}"
        if self.rng.random() < 0.5:
            return releases(release("", key, partition=partition), rm=self.rm)
        size = self.rng.choice(self.shapes)
        taken = ask("", key, on_node=self._node_id(), partition=partition, size=size)
        return asks(replace(taken, tags={"foreign": "default"}), rm=self.rm)

    def freed(self) -> UpdateAllocations:
        """Releases of keys that may exist."""
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

    def failing(self) -> UpdateAllocations:
        """Report that some of the latest allocations cannot be run."""
        partition = self.settings.any_partition()
        keys = dict.fromkeys(self.asked[-self.rng.choice([2, 8, 30]) :])
        why = TerminationType.SCHEDULING_FAILED_ON_RM
        return releases(*(release(*key, why=why, partition=partition) for key in keys), rm=self.rm)

    def replay(self, now: float) -> list[Command]:
        """A replay with a few items, and mostly correct counts."""
        inside = (self.new_nodes(), self.new_apps(now), self.new_asks(now))
        counts = EndReplay(
            rm_id=RmId(self.rm),
            nodes=len(inside[0].nodes) + self.rng.choice([0, 0, 0, 0, 1]),
            applications=len(inside[1].new),
            allocations=len(inside[2].asks),
        )
        return [BeginReplay(rm_id=RmId(self.rm)), *inside, counts]

    def hold(self) -> SetHold:
        """Stop scheduling for the RM, or resume it."""
        on = self.rng.random() < 0.4
        return SetHold(rm_id=RmId(self.rm), hold=Hold.OUTBOX_FULL, on=on)


def _attributes(rng: Random, topology: Random | None) -> dict[str, str]:
    """The attributes of a node: mostly a zone, and a rack if there are topology domains."""
    found = {"zone": rng.choice(["", "a", "b", "b"])}
    if topology is not None:
        found["rack"] = topology.choice(["", "1", "1", "2", "2"])
    return {name: value for name, value in found.items() if value}

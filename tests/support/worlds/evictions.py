"""Rules of preemption, checked from outside: what is told to stop, for whom, and what comes of it.

The world is played one decision at a time, so that what is seen after a step is what was decided
on.

P1  A victim's queue keeps what it is guaranteed of the victim's types, and so does every queue
    above it that the beneficiary is not in. The beneficiary's own has no more than its guarantee.
P2  What was told to stop is not told again, and it is there until its RM, a lost node or a lost
    application ends it.
P3  Victims are told to stop for an ask once. With any of them left the ask would not fit, unless
    the RM was asked: it may want more of them to go.
P4  While a beneficiary waits nobody else gets so much that it could not be placed any more.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import AllocationsReleased, Effect
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler

FOR_ASK = "preempting allocations to free up resources to run ask: "

Over = set[tuple[Quota, str]]
"""Queues, users and groups that have more of a type than they may, when all has settled."""


class Eviction(NamedTuple):
    """A victim, and the ask that it has to go for."""

    app: Application
    request: Request
    beneficiary: Application
    ask: Request


class Evictions:
    """Watches the preemption in a core. `victims` counts those of asks below a guarantee."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Nobody was told to stop yet."""
        self._scheduler = scheduler
        self._stopping: dict[Request, Application] = {}
        self._served: dict[Request, None] = {}
        self._over: Over = set()
        self.victims = 0

    def before(self) -> None:
        """The core is about to decide: what exceeds a maximum already it may not have caused."""
        self._over = set(self._all_over(promised=False))
        # An ask whose victims were stopped in vain may have others.
        self._served = {ask: None for ask in self._served if ask.triggered}

    def after(self, effects: Iterable[Effect], *, decided: bool) -> None:
        """Check what was told; `decided` by the core, rather than caused by what an RM said."""
        here = {
            request: app
            for partition in self._scheduler.partitions.values()
            for app in partition.applications.values()
            for request in app.requests.values()
        }
        for request in [*self._stopping]:
            if request not in here:
                assert not decided, f"P2: {request} was freed without a confirmation"
                del self._stopping[request]
            else:
                assert request.state is RequestState.PREEMPTING, f"P2: {request} goes on"
        if decided:
            worse = set(self._all_over(promised=True)) - self._over
            assert not worse, f"P4: too much for others is taken: {worse}"
        told = self._told(effects)
        asks = {(partition, one.ask): one.beneficiary for partition, one in told}
        assert not decided or len(asks) <= 1, f"one decision is for one ask, not for {[*asks]}"
        for (partition, ask), app in asks.items():
            victims = [one for _, one in told if one.ask is ask]
            self._check(partition, app, ask, victims, decided=decided)

    def _told(self, effects: Iterable[Effect]) -> list[tuple[Partition, Eviction]]:
        """Who stops for asks below a guarantee, with the partition; all are noted as stopping."""
        found: list[tuple[Partition, Eviction]] = []
        for effect in effects:
            if not isinstance(effect, AllocationsReleased):
                continue
            partition = self._scheduler.partitions.get(effect.partition)
            for told in effect.releases:
                if told.termination is not TerminationType.PREEMPTED_BY_SCHEDULER:
                    continue
                assert partition is not None, f"{effect.partition} is gone"
                app = partition.applications[told.app_id]
                request = app.requests[told.key]
                assert request not in self._stopping, f"P2: {request} is told to stop again"
                self._stopping[request] = app
                if told.message.startswith(FOR_ASK):
                    for_whom, ask = self._new_promise(partition, told.message[len(FOR_ASK) :])
                    eviction = Eviction(app, request, for_whom, ask)
                    found.append((partition, eviction))
        return found

    def _new_promise(self, partition: Partition, key: str) -> tuple[Application, Request]:
        """The ask of that key that was promised something just now."""
        (found,) = [
            (app, request)
            for app in partition.applications.values()
            for request in app.reserved.values()
            if request.key == key and request.promise and request not in self._served
        ]
        return found

    def _check(
        self,
        partition: Partition,
        app: Application,
        ask: Request,
        victims: list[Eviction],
        *,
        decided: bool,
    ) -> None:
        """The rules for the victims of an ask; `decided` by the core, or by an answer of the RM."""
        self._served[ask] = None
        self.victims += len(victims)
        assert ask.triggered, f"P3: {ask} may have victims once"
        for victim, request, _, _ in victims:
            for queue in victim.leaf.lineage:
                if queue not in app.leaf.lineage:
                    _check_kept(queue, request)
            needed = not decided or _is_needed(partition, request, app, ask)
            assert needed, f"P3: {request} need not go for {ask}"
        _check_due(app, ask)

    def _all_over(self, *, promised: bool) -> Iterator[tuple[Quota, str]]:
        """Where more is used in the end than may be; of types that are `promised` there, or any."""
        quotas: dict[Quota, None] = {}
        for partition in self._scheduler.partitions.values():
            quotas |= dict.fromkeys(partition.tree.walk())
            for app in partition.applications.values():
                quotas |= dict.fromkeys(app.trackers)
        for quota in quotas:
            for name in quota.promised if promised else quota.allocated | quota.promised:
                if _exceeds(quota, name):
                    yield quota, name


def _settled(quota: Quota, name: str) -> int:
    """What is used when all victims are gone, and all that were promised something are placed."""
    promised, preempting = quota.promised.get(name, 0), quota.preempting.get(name, 0)
    return quota.allocated.get(name, 0) - quota.overhang.get(name, 0) - preempting + promised


def _exceeds(quota: Quota, name: str, more: int = 0) -> bool:
    bound = None if quota.max is None else quota.max.get(name, 0 if quota.strict else None)
    return bound is not None and _settled(quota, name) + more > bound


def _due(queue: Queue, name: str) -> int:
    return (queue.guaranteed or {}).get(name, 0)


def _check_kept(queue: Queue, victim: Request) -> None:
    """P1, for a queue of a victim."""
    for name, _ in victim.ask.ask_class.items:
        due, left = _due(queue, name), _settled(queue, name)
        assert not due or left >= due, f"P1: {victim} leaves {queue.path} {left} of {due} {name}"


def _check_due(app: Application, ask: Request) -> None:
    """P1, for the queue of the beneficiary: the lowest one that guarantees a type of the ask."""
    names = [name for name, _ in ask.ask.ask_class.items]
    for queue in app.leaf.lineage:
        due = {name: _due(queue, name) for name in names if _due(queue, name)}
        if due:
            used = {name: _settled(queue, name) for name in due}
            assert all(used[name] <= due[name] for name in due), f"P1: {queue.path} has {used}"
            return
    raise AssertionError(f"P1: nothing is guaranteed for {ask}")


def _is_needed(partition: Partition, victim: Request, app: Application, ask: Request) -> bool:
    """True if the ask could not be placed if this victim stayed."""
    node_id = None if ask.reservation is None else ask.reservation.node_id
    assert node_id is not None, f"{ask} has no node"
    node = partition.nodes.by_id[node_id]
    assert victim.allocation is not None, f"{victim} runs nowhere"
    gives = victim.ask.ask_class.resources
    free = dict(node.available)
    for allocation in node.allocations:
        request = partition.applications[allocation.ask.app_id].requests[allocation.key]
        if request.state is RequestState.PREEMPTING and request is not victim:
            for name, value in allocation.ask.ask_class.items:
                free[name] = free.get(name, 0) + value
    wanted = ask.ask.ask_class.items
    if any(free.get(name, 0) < value for name, value in wanted):
        return True
    theirs = partition.applications[victim.ask.app_id].leaf.lineage
    return any(
        _exceeds(queue, name, gives.get(name, 0))
        for queue in app.leaf.lineage
        if queue in theirs
        for name, _ in wanted
    )

"""Random loads under maxima of queues, limits of users, and budgets: starts are the earliest, and kept."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from re import sub

import pytest

from extensions.backfill.test_shadows import CONSERVATIVE, job
from extensions.budgets.test_budgets import budgets
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.shadow_start import ShadowStart
from licorne_core.extensions.backfill.unplanned import RETRY_TIME
from licorne_core.extensions.budgets.messages import Budget, BudgetPattern
from licorne_core.messages.commands import Command
from licorne_core.messages.effects import Effect
from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.node import Node
from licorne_core.model.quotas import Quota
from licorne_core.values.tags import RUNTIME
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import START, Driver, placed

QUEUES = (
    "[{name: p, resources: {max: {vcore: 12m}}, limits: [{limit: '', users: [ann], "
    "maxresources: {vcore: 7m}}], queues: [{name: a, resources: {max: {vcore: 8m}}}, {name: b}]}, {name: c}]"
)
"""Two leaves below a maximum, one with a maximum of its own, and a limit for one user in both."""

LOWER = QUEUES.replace("12m", "9m").replace("8m", "5m")
HIGHER = QUEUES.replace("7m", "9m").replace("8m", "11m")

MOST = {QUEUES: (12, 8), LOWER: (9, 5), HIGHER: (12, 11)}
"""For each variant of the queues, the maxima of parent and leaf, to be used as limits of budgets."""


def bounded(queues: str, rest: str, seed: int) -> tuple[str, list[Command]]:
    """The configuration, and for odd seeds budgets in place of the maxima of queues."""
    if not seed % 2:
        return config(queues, rest="nodesortpolicy: fair", properties=rest), []
    parent, leaf = MOST[queues]
    below = Budget(name="p/a", limit={"vcore": leaf}, members=(BudgetPattern(queue="root.p.a"),))
    above = Budget(name="p", limit={"vcore": parent}, members=(BudgetPattern(queue="root.p"),))
    queues = sub(r", resources: {max: {vcore: \d+m}}", "", queues)
    return config(queues, rest="nodesortpolicy: fair", properties=rest), [budgets(above, below)]


PLACES = {"root.p.a": ("ann", "bob"), "root.p.b": ("ann", "bob"), "root.c": ("ann", "bob")}

SIZES = pytest.mark.parametrize("sizes", [(40,), (10, 6, 4)], ids=["much room", "little room"])
MODES = pytest.mark.parametrize("mode", ["easy", "conservative"])


@pytest.mark.worlds(first=7_600_000, one_in=16, size=40)
@SIZES
@MODES
@pytest.mark.parametrize("most", [0.0, 0.375], ids=["in time", "late"])
def test_a_start_under_maxima_is_no_later_than_the_sum_of_late_ends(
    part: range, sizes: tuple[int, ...], mode: str, most: float
) -> None:
    """No start exceeds its first published time by more than the sum of late ends before it."""
    held = 0
    for seed in part:
        load = Load(seed, sizes, mode, most)
        load.play()
        held += len(load.told)
        for key, (start, began, delays) in load.found.items():
            assert began <= start + delays + 0.01, f"load {seed}: {key} {start} {began} {delays}"
    assert held >= 2 * len(part)


@pytest.mark.worlds(first=7_620_000, one_in=16, size=40)
@SIZES
@MODES
def test_starts_fit_under_changing_maxima(part: range, sizes: tuple[int, ...], mode: str) -> None:
    """At each start the charged and held amounts fit under the maxima, and every ask starts in the end."""
    for seed in part:
        load = Load(seed, sizes, mode, reloads=True)
        load.play()
        left = [shadow.request.key for shadow in starts_of(load.driver.partition).shadows]
        assert not left, f"load {seed}: {left}"


class Load:
    """Random asks and gangs: `told` has first published starts, `found` those of placed asks with delays.

    Ends are late by up to `most` seconds. With `reloads` maxima rise and fall.
    """

    def __init__(
        self, seed: int, sizes: tuple[int, ...], mode: str, most: float = 0.0, *, reloads: bool = False
    ) -> None:
        self.rng, self.seed = Random(f"maxima {seed}"), seed
        self.driver = driver = Driver()
        self.most, self.reloads = most, reloads
        self.rest = f"{{backfill: {mode}, reservation.max.nodes: '0', topology.levels: 'rack'}}"
        start, bounds = bounded(QUEUES, self.rest, seed)
        driver.do(register(start), *bounds)
        racks = [{"rack": str(number % 2)} for number in range(len(sizes))]
        there = zip(sizes, racks, strict=True)
        driver.do(
            nodes(*(node(f"n{i}", vcore=size, attributes=rack) for i, (size, rack) in enumerate(there)))
        )
        self.names = [(leaf, user) for leaf, users in PLACES.items() for user in users]
        for leaf, user in self.names:
            driver.do(apps(app(f"{leaf} {user}", leaf, user=user)))
        driver.now = START
        self.ends: list[tuple[float, str, str, float]] = []
        self.runs: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self.found: dict[str, tuple[float, float, float]] = {}
        self.delays = 0.0

    def play(self) -> None:
        """Play 80 seconds of arrivals, and wait for all ends."""
        driver, rng = self.driver, self.rng
        coming = sorted((rng.randrange(80), number) for number in range(18))
        while coming or self.ends:
            due = driver.scheduler.next_deadline()
            times = [START + time for time, _ in coming[:1]] + [end for end, *_ in self.ends[:1]]
            times += [] if due is None else [max(due, driver.now + 0.001)]
            self._note(driver.wait(max(0.0, min(times) - driver.now)))
            over = []
            while self.ends and self.ends[0][0] <= driver.now:
                _, app_id, key, delay = heappop(self.ends)
                self.delays += delay
                over.append(release(app_id, key))
            if over:
                self._note(driver.do(releases(*over)))
            while coming and START + coming[0][0] <= driver.now:
                self._come(coming.pop(0)[1])

    def _come(self, number: int) -> None:
        rng, driver = self.rng, self.driver
        if self.reloads and rng.random() < 0.3:
            queues = rng.choice([QUEUES, LOWER, HIGHER])
            changed, bounds = bounded(queues, self.rest, self.seed)
            self._note(driver.do(reload(changed), *bounds))
            # Starts are compared with the remaining amounts of budgets in the next turn.
            self._note(driver.wait(RETRY_TIME if bounds else 0.0))
            self._check_room()
        leaf, user = rng.choice(self.names)
        seconds = rng.choice([20, 50, 100, 300])
        if rng.random() < 0.7:
            self.runs[f"j{number}"] = float(seconds)
            self._note(driver.do(asks(job(f"{leaf} {user}", f"j{number}", rng.randint(1, 6), seconds))))
            return
        name, size, count = f"gang{number}", rng.randint(1, 2), rng.randint(2, 3)
        terms = {"licorne/topology": "required=rack"} if rng.random() < 0.5 else {}
        self._note(driver.do(apps(app(name, leaf, user=user, gang={"vcore": size * count}, tags=terms))))
        keys = [f"{name}-{member}" for member in range(count)]
        self.runs.update(dict.fromkeys(keys, float(seconds)))
        tags = {RUNTIME: str(seconds)}
        members = [ask(name, key, placeholder=True, group="g", vcore=size, tags=tags) for key in keys]
        self._note(driver.do(asks(*members)))

    def _note(self, effects: list[Effect]) -> None:
        now = self.driver.now
        for app_id, key, _ in placed(effects):
            delay = self.rng.randrange(33) / 32 * self.most
            heappush(self.ends, (now + self.runs[key] + delay, app_id, key, delay))
            if key in self.told:
                self.found[key] = self.told[key], now - START, self.delays
        for shadow in starts_of(self.driver.partition).shadows:
            self.told.setdefault(str(shadow.request.key), shadow.start - START)

    def _check_room(self) -> None:
        shadows = [*starts_of(self.driver.partition).shadows]
        for shadow in shadows:
            for quota in shadow.app.quotas:
                over = (quota.max or {}).get("vcore", 1_000) - held_at(
                    self.driver, quota, shadow.start, shadows
                )
                assert quota.path == "root" or over >= 0, f"{shadow.request.key} under {quota!r}"


def held_at(driver: Driver, quota: Quota, time: float, shadows: Sequence[ShadowStart]) -> int:
    """Cores of a quota in use at a time by declared runtimes, plus the cores that shadow starts hold then."""
    partition = driver.partition
    apart = [
        (partition.applications[one.ask.app_id], one.allocation_time + one.ask.ask_class.runtime, one.ask)
        for there in partition.nodes.by_id.values()
        for one in there.allocations
    ]
    used = sum(
        one.ask_class.resources["vcore"] for app, end, one in apart if time < end and quota in app.quotas
    )
    for other in shadows:
        if other.start <= time < other.expected_end and quota in other.app.quotas:
            used += sum(request.ask.ask_class.resources["vcore"] for request, _ in other.members)
    return used


@pytest.mark.worlds(first=7_610_000, one_in=8, size=40)
def test_a_start_under_maxima_is_the_earliest_possible(part: range) -> None:
    """Brute force finds no earlier start for an ask or a gang beside the starts published before."""
    held = 0
    for seed in part:
        driver = filled(seed)
        told = [*starts_of(driver.partition).shadows]
        held += len(told)
        for number, shadow in enumerate(told):
            assert round(shadow.start - START, 3) == earliest(driver, shadow, told[:number]), f"load {seed}"
    assert held >= 3 * len(part)


def filled(seed: int) -> Driver:
    """Nodes with running jobs of three leaves, and asks and gangs that wait in random leaves."""
    rng = Random(f"earliest {seed}")
    driver = Driver()
    start, bounds = bounded(QUEUES, CONSERVATIVE, seed)
    driver.do(register(start), *bounds)
    driver.do(nodes(*(node(f"n{number}", vcore=rng.randint(4, 9)) for number in range(4))))
    names = [(leaf, user) for leaf, users in PLACES.items() for user in users]
    for leaf, user in names:
        driver.do(apps(app(f"{leaf} {user}", leaf, user=user)))
    for number in range(14):
        leaf, user = rng.choice(names)
        seconds = rng.choice([20, 50, 70, 100, 300])
        if rng.random() < 0.3:
            name, size, count = f"gang{number}", rng.randint(1, 3), rng.randint(2, 3)
            driver.do(apps(app(name, leaf, user=user, gang={"vcore": size * count})))
            tags = {RUNTIME: str(seconds)}
            driver.do(
                asks(
                    *(
                        ask(name, f"{name}-{i}", placeholder=True, group="g", vcore=size, tags=tags)
                        for i in range(count)
                    )
                )
            )
        else:
            driver.do(asks(job(f"{leaf} {user}", f"j{number}", rng.randint(1, 6), seconds)))
    return driver


def earliest(driver: Driver, shadow: ShadowStart, before: Sequence[ShadowStart]) -> float:
    """Seconds until all members have room on nodes and under maxima, for as long as they run."""
    partition = driver.partition
    runs, count = shadow.runtime, len(shadow.members)
    ((_, size),) = shadow.request.ask.ask_class.items
    quotas = [quota for quota in shadow.app.quotas if quota.max is not None]
    placed_now = [(one, there) for there in partition.nodes.by_id.values() for one in there.allocations]
    ends = [one.allocation_time + one.ask.ask_class.runtime for one, _ in placed_now]
    changes = sorted({START, *ends, *(other.start for other in before), *(o.expected_end for o in before)})

    def used(time: float, counts: Callable[[Application, Node], bool]) -> int:
        found = 0
        for (one, there), end in zip(placed_now, ends, strict=True):
            if time < end and counts(partition.applications[one.ask.app_id], there):
                found += one.ask.ask_class.resources["vcore"]
        for other in before:
            for request, there in other.members if other.start <= time < other.expected_end else ():
                if counts(other.app, there):
                    found += request.ask.ask_class.resources["vcore"]
        return found

    def on_node(time: float, there: Node) -> int:
        return there.capacity["vcore"] - used(time, lambda _, node: node is there)

    def under(time: float, quota: Quota) -> int:
        return (quota.max or {})["vcore"] - used(time, lambda app, _: quota in app.quotas)

    def fits(start: float) -> bool:
        times = [start, *(time for time in changes if start < time < start + runs)]
        there = partition.nodes.by_id.values()
        slots = sum(min(on_node(time, one) for time in times) // size for one in there)
        return slots >= count and all(
            under(time, quota) >= size * count for quota in quotas for time in times
        )

    return round(min(time for time in changes if fits(time)) - START, 3)

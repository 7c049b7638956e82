"""The shadow start of a gang is the earliest time at which brute force places all of its members."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import NamedTuple

import pytest

from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.shadow_start import ShadowStart
from licorne_core.messages.commands import NewApplication
from licorne_core.values.asks import Ask
from licorne_core.values.slices import Tuning
from licorne_core.values.tags import RUNTIME
from support.core.builders import app, apps, ask, asks, node, nodes, register, release, releases
from support.core.driver import START, Driver, placed
from support.oracle.books import Amounts
from support.reference_topology import Cluster, check, domains, drawn, fits
from support.seeds import lively
from support.worlds import World, play_watched

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {topology.levels: "zone, rack", backfill: easy, reservation.max.nodes: "0"}
        queues: [{name: a}, {name: b}]
"""
SEVERAL = CONFIG.replace("easy", "conservative")


class Run(NamedTuple):
    """An allocation on a node, now or later; times in seconds after the start of the test, inf if unknown."""

    node: str
    size: Amounts
    end: float
    start: float = 0.0


class BusyCluster(NamedTuple):
    """An empty cluster, the allocations in it, and the node of a placed member of the gang, if any.

    Members of the gang run for `seconds`.
    """

    cluster: Cluster
    runs: list[Run]
    held: str | None
    seconds: float = inf


def busy(seed: int) -> BusyCluster:
    """A small cluster, mostly in use, and a gang; a quarter of the gangs has no topology."""
    rng = Random(f"starts {seed}")
    cluster = drawn(seed)
    if rng.random() < 0.25:
        cluster = cluster._replace(level="", slice_size=0)
    runs = []
    room = {name: dict(size) for name, size in cluster.room.items()}
    for name in rng.choices(list(room), k=2 * len(room)):
        size = {"gpu": rng.randint(0, room[name]["gpu"]), "memory": rng.randint(0, room[name]["memory"])}
        if any(size.values()):
            runs.append(Run(name, size, rng.choice([10.0, 20.0, 30.0, 30.0, 40.0, 50.0, inf])))
            room[name] = {what: value - size[what] for what, value in room[name].items()}
    held = None
    if cluster.level and rng.random() < 0.3 and (free := [name for name in room if room[name]["memory"]]):
        held = rng.choice(free)
        runs.append(Run(held, {"memory": 1}, inf))
    return BusyCluster(cluster, runs, held)


def at(some: BusyCluster, time: float) -> Cluster:
    """The cluster with only the room that is free throughout the run of a gang that starts at `time`."""
    least = {name: dict(size) for name, size in some.cluster.room.items()}
    for moment in (time, *(run.start for run in some.runs if time < run.start < time + some.seconds)):
        room = {name: dict(size) for name, size in some.cluster.room.items()}
        for run in some.runs:
            if run.start <= moment < run.end:
                for what, value in run.size.items():
                    room[run.node][what] -= value
        for name, size in room.items():
            for what, value in size.items():
                least[name][what] = max(0, min(least[name][what], value))
    return some.cluster._replace(room=least)


def possible(some: BusyCluster, time: float) -> list[list[str]]:
    """The domains of the narrowest possible level that have room for all members at the time."""
    cluster = at(some, time)
    levels = [cluster.level] if cluster.required else [*dict.fromkeys((cluster.level, "zone", ""))]
    for level in levels:
        found = domains(cluster, list(cluster.room), level)
        if level and some.held is not None:
            found = [inside for inside in found if some.held in inside] or found
        if fitting := [inside for inside in found if fits(cluster, inside)]:
            return fitting
    return []


def earliest(some: BusyCluster) -> float | None:
    """The first time, in seconds, at which all members can be placed; None without one."""
    ends = sorted({0.0, *(run.end for run in some.runs)} - {inf})
    return next((time for time in ends if possible(some, time)), None)


def begun(some: BusyCluster, tuning: Tuning | None = None) -> tuple[Driver, dict[str, str]]:
    """A core with all allocations and the gang submitted, and the nodes of its placed members."""
    driver = Driver(sweep=100, tuning=tuning)
    cluster = some.cluster
    # Allocations that run for ever have a leaf in which nothing ends, so no runtime is learnt there.
    driver.do(register(CONFIG), apps(app("runs", "root.a"), app("for-ever", "root.b"), new(cluster)))
    driver.do(
        nodes(*(node(n, attributes=cluster.attributes[n], size=room) for n, room in cluster.room.items()))
    )
    brought = [
        ask(_owner(run), str(number), size=_some(run.size), on_node=run.node, created=START, tags=_told(run))
        for number, run in enumerate(some.runs)
    ]
    if some.held is not None:
        brought[-1] = ask("job", "held", group="g0", memory=1, on_node=some.held, created=START)
    driver.do(asks(*brought))
    effects = driver.do(asks(*members(cluster)))
    return driver, {key: node_id for _, key, node_id in placed(effects)}


def beside_others(seed: int, tuning: Tuning | None) -> tuple[BusyCluster, Driver, dict[str, str]]:
    """The cluster, a core in which other asks hold starts before the gang, and the gang's nodes by key."""
    some, rng = busy(seed), Random(f"others {seed}")
    some = some._replace(held=None, seconds=rng.choice([5.0, 15.0, 25.0, inf]))
    running = [run for run in some.runs if run.end < inf]
    driver = Driver(sweep=100, tuning=tuning)
    driver.do(register(SEVERAL), apps(app("runs", "root.a"), app("others", "root.a"), new(some.cluster)))
    rooms = some.cluster.room.items()
    driver.do(nodes(*(node(n, attributes=some.cluster.attributes[n], size=room) for n, room in rooms)))
    brought = [
        ask("runs", str(number), size=_some(run.size), on_node=run.node, created=START, tags=_told(run))
        for number, run in enumerate(running)
    ]
    driver.do(asks(*brought))
    for number in range(rng.randint(1, 5)):
        size = {"gpu": rng.randint(1, 3), "memory": rng.randint(1, 3)}
        seconds = rng.choice([5, 10, 20])
        other = ask("others", f"o{number}", size=size, tags={RUNTIME: str(seconds)})
        running += [Run(where, size, seconds) for _, _, where in placed(driver.do(asks(other)))]
    for shadow in starts_of(driver.partition).shadows:
        begin, end = shadow.start - START, shadow.expected_end - START
        running += [Run(str(one.node_id), dict(items), end, begin) for one, items in shadow.places.items()]
    tags = {} if some.seconds == inf else {RUNTIME: f"{some.seconds:.0f}"}
    effects = driver.do(asks(*(replace(one, tags=tags) for one in members(some.cluster))))
    found = {key: where for app_id, key, where in placed(effects) if app_id == "job"}
    return some._replace(runs=running), driver, found


def members(cluster: Cluster) -> list[Ask]:
    """The placeholders of the gang."""
    return [
        ask("job", f"g{group}-{index}", placeholder=True, group=f"g{group}", size=size)
        for group, (size, count) in enumerate(cluster.groups)
        for index in range(count)
    ]


def new(cluster: Cluster) -> NewApplication:
    """The application of the gang."""
    tags = {}
    if cluster.level:
        tags["licorne/topology"] = f"{'required' if cluster.required else 'preferred'}={cluster.level}"
    if cluster.slice_size:
        tags["licorne/slice"] = f"size={cluster.slice_size},level={cluster.slice_level}"
    total: Amounts = {}
    for size, count in cluster.groups:
        for what, value in size.items():
            total[what] = total.get(what, 0) + value * count
    return app("job", "root.a", gang=total, tags=tags)


def _some(size: Amounts) -> Amounts:
    return {what: value for what, value in size.items() if value}


def _owner(run: Run) -> str:
    return "for-ever" if run.end == inf else "runs"


def _told(run: Run) -> dict[str, str]:
    return {} if run.end == inf else {RUNTIME: f"{run.end:.0f}"}


def shadow_of(driver: Driver) -> ShadowStart | None:
    """The shadow start of the gang, if it holds one."""
    return next((one for one in starts_of(driver.partition).shadows if one.app.app_id == "job"), None)


def slots(cluster: Cluster, inside: Sequence[str]) -> int:
    """The number of members with room, counted for each size as if there were no other sizes."""
    return sum(
        min(cluster.room[name][what] // value for what, value in size.items())
        for size, _ in cluster.groups
        for name in inside
    )


@pytest.mark.worlds(first=7_100_000, one_in=3)
@pytest.mark.parametrize("tuning", [None, Tuning(fill_work=1)], ids=["at once", "node by node"])
@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside others"])
def test_a_start_is_the_earliest_that_brute_force_finds(
    part: range, others: bool, tuning: Tuning | None
) -> None:
    """The nodes are in the smallest domain of the narrowest level with room; no slice is divided.

    Beside other shadow starts the gang ends before another start needs its room.
    """
    for seed in part:
        some = busy(seed)
        some, driver, found = beside_others(seed, tuning) if others else (some, *begun(some, tuning))
        start = earliest(some)
        shadow = shadow_of(driver)
        if start == 0.0 or start is None:
            assert (bool(found), shadow) == (start == 0.0, None), f"world {seed}: {start} {some}"
            continue
        assert shadow is not None, f"world {seed}: {start} {some}"
        assert shadow.start == START + start, f"world {seed}: {start} {some}"
        planned = {str(request.key): str(node.node_id) for request, node in shadow.members}
        then = at(some, start)
        check(seed, then, planned)
        fitting = possible(some, start)
        (inside,) = [inside for inside in fitting if {*planned.values()} <= {*inside}]
        assert slots(then, inside) == min(slots(then, one) for one in fitting), f"world {seed}"


@pytest.mark.worlds(first=7_200_000, one_in=6)
def test_a_gang_starts_by_its_published_start(part: range) -> None:
    """If allocations end in time, a gang starts no later than published, even if small asks keep arriving."""
    held = 0
    for seed in part:
        some, rng = busy(seed), Random(f"small {seed}")
        driver, found = begun(some)
        shadow = shadow_of(driver)
        if shadow is None:
            continue
        held += 1
        told, runtimes = shadow.first_told - START, {}
        driver.do(apps(app("small", "root.a")))
        ends = {("runs", str(number)): run.end for number, run in enumerate(some.runs)}
        for now in range(round(told) + 1):
            driver.now = START + now
            over = [release(*name) for name, end in ends.items() if end == now]
            runtimes[f"s{now}"] = rng.choice([1, 2, 5, 10, 60])
            wanted = ask("small", f"s{now}", gpu=1, tags={RUNTIME: str(runtimes[f"s{now}"])})
            for app_id, key, node_id in placed(driver.do(releases(*over), asks(wanted))):
                if app_id == "job":
                    found[key] = node_id
                else:
                    ends["small", key] = now + runtimes[key]
        assert len(found) == sum(count for _, count in some.cluster.groups), f"world {seed}: {told} {some}"
    assert held >= len(part) // 12


@pytest.mark.worlds(first=7_300_000, one_in=60)
def test_recounts_hold_with_starts_of_gangs(part: range) -> None:
    """After every step the recount holds, while RMs, nodes and levels are added and removed."""
    found = 0
    for seed in part:
        script = World(seed, 80, gangs=0.9, backfill=1.0, gang_starts=True, topology=True).steps
        found += len(placed(play_watched(script)[0]))
    assert found >= 5 * lively(len(part))

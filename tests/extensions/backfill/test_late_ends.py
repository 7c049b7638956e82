"""Planned starts if ends are reported a little late, because the RM first has to see them."""

from heapq import heappop, heappush
from random import Random

import pytest

from extensions.backfill.test_shadows import CONSERVATIVE, at, job, starts, world
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.planned_room import PlannedRoom
from licorne_core.messages.effects import Effect
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import NodeId
from licorne_core.values.tags import RUNTIME
from support.core.builders import app, apps, ask, asks, release, releases
from support.core.driver import START, placed


@pytest.mark.parametrize("delay", [0.001953125, 0.25, 1.0])
def test_delays_of_successive_starts_only_add_up(delay: float) -> None:
    """A late holder is placed as soon as it has room; later starts move by the same delay."""
    driver = world(10, properties=CONSERVATIVE)
    driver.do(asks(job("first", "X", 10, 100), *(job("second", key, 10, 60) for key in "ABC")))
    now, over = 100 + delay, release("first", "X")
    for number, key in enumerate("ABC"):
        at(driver, now)
        assert placed(driver.do(releases(over))) == [("second", key, "n0")]
        rest = enumerate("ABC"[number + 1 :], 1)
        assert starts(driver) == {name: (round(now + 60 * after, 3), ["n0"]) for after, name in rest}
        now, over = now + 60 + delay, release("second", key)


def test_delays_of_successive_gangs_only_add_up() -> None:
    """A gang that starts late moves the next gang by the same delay, on all of its nodes."""
    driver = world(1, 1, properties=CONSERVATIVE)
    driver.do(asks(*(job("first", f"X{number}", 1, 100) for number in range(2))))
    for name in ("one", "two"):
        driver.do(apps(app(name, "root.a", gang={"vcore": 2})))
        tags = {RUNTIME: "60"}
        members = [ask(name, f"{name}{i}", placeholder=True, group="g", vcore=1, tags=tags) for i in range(2)]
        driver.do(asks(*members))
    at(driver, 100.25)
    effects = driver.do(releases(*(release("first", f"X{number}") for number in range(2))))
    assert [key for _, key, _ in placed(effects)] == ["one0", "one1"]
    assert starts(driver) == {"two0": (160.25, ["n0", "n1"])}


def test_a_start_planned_beside_a_late_one_is_on_time() -> None:
    """An ask planned beside a late start is placed with it; only the start after the late one moves."""
    driver = world(10, properties=CONSERVATIVE)
    driver.do(asks(job("first", "X", 10, 100), job("second", "A", 6, 60), job("second", "B", 6, 60)))
    driver.do(asks(job("third", "C", 4, 100)))
    assert starts(driver) == {"A": (100.0, ["n0"]), "B": (160.0, ["n0"]), "C": (100.0, ["n0"])}
    at(driver, 100.25)
    assert [key for _, key, _ in placed(driver.do(releases(release("first", "X"))))] == ["A", "C"]
    assert starts(driver) == {"B": (160.25, ["n0"])}


def test_a_start_counts_on_the_learnt_end_of_an_earlier_holder() -> None:
    """An ask planned beside a holder by its learnt runtime is placed together with the holder."""
    driver = world(10, properties=CONSERVATIVE)
    for number in range(3):
        driver.do(asks(job("first", f"w{number}", 6)))
        driver.wait(100.0)
        driver.do(releases(release("first", f"w{number}")))
    driver.do(asks(job("first", "Z", 10, 50)), asks(job("first", "A", 6)), asks(job("second", "B", 6, 50)))
    driver.do(asks(job("third", "C", 4, 300)))
    driver.wait(50.0)
    assert [key for _, key, _ in placed(driver.do(releases(release("first", "Z"))))] == ["A", "C"]


@pytest.mark.parametrize(("late", "starts_then"), [(0.125, True), (1.0, True), (1.125, False)])
def test_a_gap_that_fits_exactly_allows_a_delay_of_a_second(late: float, starts_then: bool) -> None:
    """An ask planned in the gap starts if its room is at most a second late; no other ask starts there."""
    driver = world(10, properties=CONSERVATIVE)
    driver.do(asks(job("first", "A", 6, 100), job("first", "B", 4, 50)))
    driver.do(asks(job("second", "H", 10, 50)), asks(job("third", "L", 4, 50)))
    assert starts(driver) == {"H": (100.0, ["n0"]), "L": (50.0, ["n0"])}
    at(driver, 50 + late)
    assert bool(placed(driver.do(releases(release("first", "B"))))) == starts_then
    assert placed(driver.do(asks(job("third", "other", 1, 49)))) == []
    assert starts(driver)["H"] == (100.0, ["n0"])


@pytest.mark.parametrize("slip", ["start", "number"])
def test_room_that_is_held_at_another_time_is_noticed(slip: str) -> None:
    """The recount finds a difference between a start and the room held on its nodes."""
    driver = world(10, properties=CONSERVATIVE)
    driver.do(asks(job("first", "X", 10, 100), job("second", "A", 10, 60)))
    own = starts_of(driver.partition)
    own.recount(driver.partition.applications, settled=True)
    (room,) = driver.partition.nodes.by_id[NodeId("n0")].claims.values()
    assert isinstance(room, PlannedRoom)
    setattr(room, slip, getattr(room, slip) + 1)
    with pytest.raises(InvariantBroken):
        own.recount(driver.partition.applications, settled=True)


@pytest.mark.worlds(first=7_400_000, one_in=8, size=40)
@pytest.mark.parametrize("sizes", [(10,), (10, 6, 4)], ids=["one node", "three nodes"])
@pytest.mark.parametrize("most", [0.0, 0.03125, 0.375])
def test_a_start_is_no_later_than_the_sum_of_late_ends(
    part: range, sizes: tuple[int, ...], most: float
) -> None:
    """A start exceeds its first published time by at most the sum of the delays of ends before it."""
    held = 0
    for seed in part:
        told = played(seed, sizes, most)
        held += len(told)
        for key, (start, began, delays) in told.items():
            assert began <= start + delays + 0.01, f"load {seed}: {key} {start} {began} {delays}"
    assert held >= 3 * len(part)


def played(seed: int, sizes: tuple[int, ...], most: float) -> dict[str, tuple[float, float, float]]:
    """By key, in seconds: the first published start, the actual start, and the delays of ends before it."""
    rng = Random(f"late {seed}")
    driver = world(*sizes, properties=CONSERVATIVE)
    coming = sorted((rng.randrange(80), number) for number in range(20))
    ends: list[tuple[float, str, float]] = []
    runs: dict[str, int] = {}
    told: dict[str, float] = {}
    found: dict[str, tuple[float, float, float]] = {}
    delays = 0.0

    def note(effects: list[Effect]) -> None:
        for _, key, _ in placed(effects):
            delay = rng.randrange(33) / 32 * most
            heappush(ends, (driver.now + runs[key] + delay, key, delay))
            if key in told:
                found[key] = told[key], driver.now - START, delays
        for shadow in starts_of(driver.partition).shadows:
            told.setdefault(str(shadow.request.key), shadow.start - START)

    while coming or ends:
        due = driver.scheduler.next_deadline()
        times = [START + time for time, _ in coming[:1]] + [time for time, _, _ in ends[:1]]
        times += [] if due is None else [max(due, driver.now + 0.001)]
        note(driver.wait(max(0.0, min(times) - driver.now)))
        while ends and ends[0][0] <= driver.now:
            _, key, delay = heappop(ends)
            delays += delay
            note(driver.do(releases(release("first", key))))
        while coming and START + coming[0][0] <= driver.now:
            _, number = coming.pop(0)
            runs[f"j{number}"] = rng.choice([20, 50, 100, 300])
            note(driver.do(asks(job("first", f"j{number}", rng.randint(1, 10), runs[f"j{number}"]))))
    return found

"""`licorne bench utilisation`: a cluster on a virtual clock, the same for the same seed."""

import json
from dataclasses import replace

import pytest

from licorne_cli.commands import main
from licorne_core.messages.commands import RegisterRm
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_core.views.queues import QueueReport
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.utilisation import UtilisationFigures, is_due, played
from licorne_tools.bench.utilisation_loads import LoadWorld, loads
from licorne_tools.commands import utilisation as bench_utilisation
from licorne_tools.commands.utilisation import COLUMNS, Played, show

FAKE_RM, MIXED, STOPPED = loads()
TOLERATED = 1.0
"""The percentage of all cores by which two runs may differ."""
LARGEST_WAIT = 240.0
"""Seconds: three times the runtime of the longest allocations of the mixed load."""


def short(
    load: LoadWorld, *, seed: int = 1, minutes: float = 1, reservations: bool = True
) -> UtilisationFigures:
    """The results of some minutes."""
    return played(load, seed=seed, seconds=minutes * 60, reservations=reservations)


def root() -> QueueReport:
    """The root queue of an RM without usage."""
    scheduler = Scheduler()
    scheduler.handle(RegisterRm(rm_id=RmId("rm")), 0.0)
    [name] = scheduler.views.partition_names()
    return scheduler.views.queue(name, "root")


def test_equal_seeds_give_equal_figures() -> None:
    """All figures are equal to the last digit, and another seed has others."""
    first = short(MIXED)
    assert short(MIXED) == first
    assert short(MIXED, seed=2) != first


def test_nodes_are_reserved_only_with_reservations() -> None:
    """With reservations nodes are reserved, because large asks fit nowhere."""
    assert short(MIXED, reservations=False).reserved_nodes_max == 0
    assert short(MIXED).reserved_nodes_max > 0


@pytest.mark.slow
def test_every_ask_is_placed_or_waits() -> None:
    """Shortly before the second round all asks of the first one exist."""
    found = short(FAKE_RM, minutes=0.95)
    assert found.placed + found.backlog_asks == FAKE_RM.world.asks
    assert 0 < found.cores_percent <= 100


@pytest.mark.slow
def test_victims_of_preemption_are_counted() -> None:
    """The owner in the fake RM's world reclaims its guarantee in each round."""
    assert short(FAKE_RM).preempted > 0


@pytest.mark.slow
def test_large_asks_are_counted() -> None:
    """Each round of the mixed load has six large asks, and that of the fake RM none."""
    assert short(MIXED).large_asks == 6
    assert short(FAKE_RM).large_asks == 0


@pytest.mark.slow
def test_asks_refused_by_a_stopped_queue_are_submitted_later() -> None:
    """After the start of the queue as many asks exist as without its stop."""
    without = short(replace(STOPPED, stopped=""), minutes=3)
    found = short(STOPPED, minutes=3)
    assert found.placed + found.backlog_asks == without.placed + without.backlog_asks
    assert found.cores_percent < without.cores_percent


def test_a_rejected_application_ends_the_bench() -> None:
    """A world whose configuration lacks a queue of its applications ends the bench."""
    config = MIXED.world.config.replace("name: large", "name: other")
    with pytest.raises(BenchError, match="application large-"):
        short(replace(MIXED, world=replace(MIXED.world, config=config)))


@pytest.mark.parametrize(
    ("guaranteed", "allocated", "headroom", "state", "due"),
    [
        ({"vcore": 10}, {"vcore": 6}, {"vcore": 4}, "Active", True),
        ({"vcore": 10}, {}, {}, "Active", True),
        ({"vcore": 10}, {"vcore": 7}, {"vcore": 9}, "Active", False),
        ({"vcore": 10}, {"vcore": 6}, {"vcore": 3}, "Active", False),
        ({"vcore": 10}, {"vcore": 6}, {"vcore": 4, "memory": 0}, "Active", False),
        ({}, {}, {"vcore": 9}, "Active", False),
        ({"vcore": 10}, {}, {"vcore": 9}, "Stopped", False),
    ],
)
def test_an_ask_is_due_within_guarantee_and_headroom(
    guaranteed: dict[str, int],
    allocated: dict[str, int],
    headroom: dict[str, int],
    state: str,
    due: bool,
) -> None:
    """An ask is due if guarantee and headroom both admit it, in a queue that is not stopped."""
    queue = replace(root(), guaranteed=guaranteed, allocated=allocated, headroom=headroom, state=state)
    assert is_due(queue, {"vcore": 4, "memory": 1}) is due


@pytest.mark.slow
def test_the_table_has_each_load_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines are with and without reservations; a load without large asks has no waits of them."""
    assert main(["bench", "utilisation", "--minutes", "1"]) == 0
    title, headers, *rows = capsys.readouterr().out.splitlines()
    assert title.endswith("(1 minutes, seed 1)")
    assert all(header in headers for header in COLUMNS)
    assert [row.split()[:2] for row in rows] == [
        [load.name, reservations] for load in loads() for reservations in ("yes", "no")
    ]
    assert [row.split()[7] == "-" for row in rows] == [True, True, False, False, True, True]


def test_json_has_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON also has the values from which the figures are computed."""
    show([Played(MIXED, True, {3: short(MIXED, seed=3)})], 1, as_data=True)
    [found] = json.loads(capsys.readouterr().out)
    assert (found["name"], found["reservations"]) == ("mixed", True)
    assert (found["seed"], found["minutes"]) == (3, 1)
    assert set(COLUMNS.values()) < set(found)


def test_several_seeds_are_summarized(capsys: pytest.CaptureFixture[str]) -> None:
    """A cell has the median, the least and the greatest; the JSON has the figures of each seed."""
    runs = {seed: replace(short(MIXED), backlog_asks=seed * 10) for seed in (4, 5, 6)}
    show([Played(MIXED, False, runs)], 1, as_data=False)
    title, _, row = capsys.readouterr().out.splitlines()
    assert title.endswith("(1 minutes, seeds 4 to 6)")
    assert "50 (40 to 60)" in row
    show([Played(MIXED, False, runs)], 1, as_data=True)
    found = json.loads(capsys.readouterr().out)
    assert [(each["seed"], each["backlog_asks"]) for each in found] == [(4, 40), (5, 50), (6, 60)]


@pytest.mark.slow
def test_seeds_are_numbered_from_the_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--seeds` is the number of seeds, and `--seed` the first one."""
    monkeypatch.setattr(bench_utilisation, "loads", lambda: (MIXED,))
    assert main(["bench", "utilisation", "--minutes", "1", "--seed", "3", "--seeds", "2"]) == 0
    title, *_ = capsys.readouterr().out.splitlines()
    assert title.endswith("(1 minutes, seeds 3 to 4)")


@pytest.mark.slow
@pytest.mark.parametrize("load", [STOPPED, MIXED], ids=["stopped", "mixed"])
def test_reservations_do_not_reduce_the_utilisation(load: LoadWorld) -> None:
    """With reservations as many cores are used, and queues are not below guarantee for longer."""
    reserving = short(load, minutes=6)
    free = short(load, minutes=6, reservations=False)
    assert reserving.warm_cores_percent >= free.warm_cores_percent - TOLERATED
    assert reserving.below_guarantee_seconds <= free.below_guarantee_seconds


@pytest.mark.slow
def test_large_asks_are_not_starved() -> None:
    """No large ask waits longer than three allocations run; without reservations some do."""
    found = short(MIXED, minutes=6)
    assert found.large_max_seconds <= LARGEST_WAIT
    assert short(MIXED, minutes=6, reservations=False).large_max_seconds > LARGEST_WAIT

"""The journal of any world can be replayed, unchanged and with changes."""

from collections.abc import Sequence
from math import inf

import pytest

from licorne_core.scheduler import Scheduler
from licorne_core.views.audit.invariants import check_invariants
from licorne_server.lab.simulation.changes import Changes, parse_nodes
from licorne_server.lab.simulation.comparing import Compared, Comparison
from licorne_server.lab.simulation.lives import Lives
from licorne_server.lab.simulation.measures import Measures
from licorne_server.lab.simulation.player import Watcher
from licorne_server.lab.simulation.replaying import replay
from support.core.driver import START, Driver
from support.seeds import lively
from support.server.recorded_run import Recorded, Recorder
from support.worlds import World
from support.worlds.playing import Players

LENGTH = 50
MORE = "+2xmemory=20,vcore=20,gpu=4"


def recorded(seed: int) -> Recorder:
    """Play a world; return its journal."""
    recorder = Recorder(start=START)
    driver = Driver(sweep=1_000_000)
    driver.scheduler = Recorded(driver.scheduler, recorder)  # type: ignore[assignment]
    players = Players(driver)
    for step in World(seed, LENGTH).steps:
        players.step(step)
    return recorder


class Both:
    """The replayed live run and a run with changes, each with its measures."""

    def __init__(self, recorder: Recorder, changes: Changes) -> None:
        self.lives: list[Lives] = []
        self.measures: list[Measures] = []
        self.live = replay(recorder.read(), inf, lambda _: None, self._of_live)
        self.lives[0].close(self.live.end)
        comparison = Comparison(recorder.read(), self.lives[0], changes, self._measured)
        self.compared: Compared = comparison.play(inf, lambda _: None)

    def _of_live(self, scheduler: Scheduler) -> Sequence[Watcher]:
        self.lives.append(Lives(scheduler))
        return (*self._measured(scheduler), self.lives[0])

    def _measured(self, scheduler: Scheduler) -> Sequence[Watcher]:
        self.measures.append(Measures(scheduler))
        return self.measures[-1:]


@pytest.mark.worlds(first=7_100_000, one_in=20)
def test_a_replay_of_a_world_has_no_difference(part: range) -> None:
    """A replay of the same inputs has the same decisions, and so has a comparison without changes."""
    for seed in part:
        recorder = recorded(seed)
        both = Both(recorder, Changes())
        assert both.live.differs is None, seed
        assert both.compared.difference is None, seed
        assert both.compared.carried.inputs == both.live.inputs, seed
        assert not both.compared.carried.left_out, seed
        live, changed = (measures.summary(both.live.end) for measures in both.measures)
        assert live.queues == changed.queues, seed
        total = live.total
        assert total.asks == total.placed + total.withdrawn + total.waiting, seed


@pytest.mark.worlds(first=7_200_000, one_in=20)
def test_a_replay_with_more_nodes_is_sound(part: range) -> None:
    """If more nodes change decisions, RMs are simulated from then on, and the books are consistent."""
    differing = 0
    for seed in part:
        both = Both(recorded(seed), Changes(nodes=(parse_nodes(MORE),)))
        differing += both.compared.difference is not None
        player = both.compared.player
        assert player.defects == 0, seed
        check_invariants(player.scheduler)
        total = both.measures[1].summary(both.live.end).total
        assert total.asks == total.placed + total.withdrawn + total.waiting, seed
    assert differing >= lively(len(part)), "the worlds are too quiet"

"""The garbage collector's manners."""

import gc
import sys
from collections.abc import Iterator

import pytest

from licorne_server.collector import SWITCH_SECONDS, WORTH, Collector


class Node:
    """Something that can be in a cycle."""

    def __init__(self) -> None:
        """Alone."""
        self.other: Node | None = None


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A started one; the process gets its own settings back."""
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    collector = Collector(quiet=0.0)
    collector.start()
    yield collector
    sys.setswitchinterval(interval)
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_a_thread_that_computes_gives_way_soon() -> None:
    """The loop gets the interpreter ten times as soon as Python would give it."""
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS) == 0.0005


def frozen_garbage() -> None:
    """Leave a cycle behind that no ordinary pass would look at."""
    one, two = Node(), Node()
    one.other, two.other = two, one
    gc.freeze()


def nodes() -> int:
    """How many of ours there are, reachable or not."""
    gc.unfreeze()
    return sum(isinstance(thing, Node) for thing in gc.get_objects())


def test_idle_pass_finds_what_was_set_aside(collector: Collector) -> None:
    """A pass in an idle moment frees cycles among the frozen objects too."""
    frozen_garbage()
    collector.idle(WORTH)
    assert nodes() == 0


def test_idle_moment_without_work_behind_it_is_left_alone(collector: Collector) -> None:
    """Where little was done since the last pass there is none."""
    frozen_garbage()
    collector.idle(WORTH - 1)
    assert nodes() == 2
    gc.collect()


def test_passes_keep_their_distance() -> None:
    """Idle moments that follow one another closely share one pass."""
    before = gc.get_threshold()
    collector = Collector(quiet=3600.0)
    collector.start()
    frozen_garbage()
    collector.idle(WORTH)
    assert nodes() == 2
    gc.set_threshold(*before)
    gc.collect()

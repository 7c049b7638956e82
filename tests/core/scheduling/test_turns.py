"""The amount of work in one turn (DESIGN § 2)."""

from itertools import pairwise

from licorne_core.handlers.turn import MOST_TRIES
from licorne_core.messages.commands import Tick
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver


def test_the_tries_of_a_turn_are_bounded() -> None:
    """Asks that fit nowhere are tried over several turns, each ask once."""
    driver = Driver(sweep=1000)
    driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=1)))
    driver.do(apps(app("job", "root.a")))
    count = 2 * MOST_TRIES + 100
    driver.send(asks(*(ask("job", f"k{size}", vcore=2 + size) for size in range(count))))
    counters = driver.partition.counters
    tried = [counters.asks_tried]
    while driver.partition.is_runnable:
        driver.send(Tick(decisions=10_000))
        tried.append(counters.asks_tried)
    each = [after - before for before, after in pairwise(tried)]
    assert max(each) <= MOST_TRIES
    assert sum(each) < 2 * count

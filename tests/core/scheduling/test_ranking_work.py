"""The number of ranking keys computed again for a decision (DESIGN § 2, scheduling order)."""

import pytest

from licorne_core.messages.commands import Tick
from licorne_core.messages.effects import AllocationsMade
from licorne_core.scheduling import order
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver
from support.core.steps import lines_in


def chain(levels: int) -> str:
    """Queues of this number of levels without siblings, with a leaf at the end."""
    queues = "[{name: leaf}]"
    for level in range(levels - 1):
        queues = f"[{{name: level-{level}, queues: {queues}}}]"
    return queues


def path_of(levels: int) -> str:
    """The path of the leaf of a `chain` of this number of levels."""
    return ".".join(["root", *(f"level-{level}" for level in reversed(range(levels - 1))), "leaf"])


def keys_of_placed(driver: Driver, decisions: int) -> list[str]:
    """The keys of the asks that the next decisions place."""
    effects = driver.begin(Tick(decisions=decisions))
    made = [effect for effect in effects if isinstance(effect, AllocationsMade)]
    return [one.ask.key for effect in made for one in effect.allocations]


@pytest.mark.pure
@pytest.mark.parametrize("levels", [2, 10])
def test_single_queues_are_not_ranked_again_for_each_decision(levels: int) -> None:
    """In a chain of queues without siblings, keys are computed only when asks arrive."""
    driver = Driver(sweep=1000)
    driver.do(register(config(chain(levels))), nodes(node("n1", vcore=1000)))
    driver.do(apps(app("job", path_of(levels))))
    driver.begin(asks(*(ask("job", f"k{number}", vcore=1) for number in range(50))))
    once = lines_in(lambda: keys_of_placed(driver, 5), order)
    again = lines_in(lambda: keys_of_placed(driver, 40), order)
    assert once["queue_key"]
    assert not again["queue_key"]


def test_a_single_queue_is_compared_by_its_present_share_with_a_new_sibling() -> None:
    """When a sibling has its first ask, a queue is compared by its present share."""
    driver = Driver()
    tree = "[{name: a, queues: [{name: b}]}, {name: c, queues: [{name: d}]}]"
    driver.do(register(config(tree)), nodes(node("n1", vcore=100)))
    driver.do(apps(app("old", "root.a.b"), app("new", "root.c.d")))
    driver.begin(asks(*(ask("old", f"old-{number}", vcore=1) for number in range(6))))
    assert keys_of_placed(driver, 3) == ["old-0", "old-1", "old-2"]
    driver.begin(asks(*(ask("new", f"new-{number}", vcore=1) for number in range(4))))
    assert keys_of_placed(driver, 5) == ["new-0", "new-1", "new-2", "old-3", "new-3"]


def test_a_queue_is_ranked_again_when_its_sibling_has_asks_again() -> None:
    """A queue is compared again by its present share when its sibling has asks again."""
    driver = Driver()
    driver.do(register(config("[{name: a}, {name: b}]")), nodes(node("n1", vcore=100)))
    driver.do(apps(app("one", "root.a"), app("two", "root.b")))
    driver.begin(asks(ask("two", "two-0", vcore=1), ask("two", "two-1", vcore=1)))
    assert keys_of_placed(driver, 2) == ["two-0", "two-1"]
    driver.begin(asks(*(ask("one", f"one-{number}", vcore=1) for number in range(6))))
    assert keys_of_placed(driver, 4) == ["one-0", "one-1", "one-2", "one-3"]
    driver.begin(asks(*(ask("two", f"two-{number}", vcore=1) for number in range(2, 5))))
    assert keys_of_placed(driver, 4) == ["two-2", "two-3", "one-4", "two-4"]

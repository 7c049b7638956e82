"""The cost of a decision, in executed lines of Python, does not grow with the number of waiting sizes."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from licorne_core.messages.commands import Command, Tick
from licorne_core.messages.effects import Effect
from licorne_core.scheduler import Scheduler
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import START, keys
from support.core.steps import lines_of_core

pytestmark = pytest.mark.pure

FEW, MANY = 10, 1000
HOLE = 10_000
"""The amount of each type that a release frees on an otherwise full node."""

Amounts = tuple[int, int]


def all_fit(count: int) -> Iterator[Amounts]:
    """Sizes of more than half of the freed amount, so that only one ask fits."""
    for number in range(count):
        yield HOLE - number, HOLE // 2 + 1 + number


def the_last_fits(count: int) -> Iterator[Amounts]:
    """Sizes of which all but the last exceed the freed amount."""
    for number in range(count - 1):
        yield HOLE + 1 + number, HOLE + count - number
    yield HOLE, HOLE


def none_fits(count: int) -> Iterator[Amounts]:
    """Sizes that all exceed the freed amount by a little."""
    for number in range(count):
        yield HOLE + 1 + number, HOLE + count - number


def in_one_application(count: int) -> tuple[str, list[str]]:
    """Asks of all sizes in one application."""
    return "{name: a}", ["root.a"]


def in_many_applications(count: int) -> tuple[str, list[str]]:
    """Each size in an application of its own, all in one leaf."""
    return "{name: a}", ["root.a"] * count


def in_many_queues(count: int) -> tuple[str, list[str]]:
    """Each size in an application of its own, over ten leaves."""
    leaves = [f"q{number}" for number in range(10)]
    return (
        ", ".join(f"{{name: {leaf}}}" for leaf in leaves),
        [f"root.{leaves[number % 10]}" for number in range(count)],
    )


class Cost(NamedTuple):
    """The executed lines of a release and of the decisions after it, and the placed asks."""

    lines: int
    served: list[str]


class Core:
    """A core with a fixed clock, whose books are not checked after each step."""

    def __init__(self) -> None:
        """Start without reservations, which depend on time."""
        self.scheduler = Scheduler(reservations=False)
        self.effects: list[Effect] = []

    def do(self, *commands: Command) -> None:
        """Process the commands, and run the core until it is idle."""
        for command in commands:
            self.effects += self.scheduler.handle(command, START)
        while (due := self.scheduler.next_deadline()) is not None and due <= START:
            self.effects += self.scheduler.handle(Tick(decisions=256), START)

    def cost_of(self, command: Command) -> Cost:
        """The cost of a command and of the decisions after it."""
        self.effects.clear()
        lines = lines_of_core(lambda: self.do(command))
        return Cost(lines, keys(self.effects))


def cost_of_a_release(
    sizes: Callable[[int], Iterator[Amounts]],
    layout: Callable[[int], tuple[str, list[str]]],
    count: int,
    *,
    root_is_full: bool,
) -> Cost:
    """The cost of a third release on full nodes, while asks of this number of sizes wait.

    If root is not full, other nodes have room, but not enough for any of the asks.
    """
    queues, paths = layout(count)
    core = Core()
    core.do(register(config(f"[{{name: f}}, {queues}]")), apps(app("fill", "root.f")))
    core.do(nodes(*(node(f"n{number}", vcore=HOLE, memory=HOLE) for number in range(20))))
    core.do(asks(*(ask("fill", f"f{n}", vcore=HOLE, memory=HOLE) for n in range(20))))
    if not root_is_full:
        core.do(nodes(*(node(f"x{n}", vcore=HOLE // 2, memory=HOLE) for n in range(10))))
    core.do(apps(*(app(f"w{number}", path) for number, path in enumerate(paths))))
    wanted = [
        ask(f"w{number % len(paths)}", f"k{number}-{again}", vcore=vcore, memory=memory)
        for number, (vcore, memory) in enumerate(sizes(count))
        for again in range(4)
    ]
    core.do(asks(*wanted))
    for number in range(2):
        core.do(releases(release("fill", f"f{number}")))
    return core.cost_of(releases(release("fill", "f2")))


@pytest.mark.parametrize("root_is_full", [True, False])
@pytest.mark.parametrize("layout", [in_one_application, in_many_applications, in_many_queues])
@pytest.mark.parametrize("sizes", [all_fit, the_last_fits])
def test_a_release_costs_the_same_for_any_number_of_sizes(
    sizes: Callable[[int], Iterator[Amounts]],
    layout: Callable[[int], tuple[str, list[str]]],
    *,
    root_is_full: bool,
) -> None:
    """A release has the same cost with ten and with a thousand sizes, whichever of them fit."""
    few = cost_of_a_release(sizes, layout, FEW, root_is_full=root_is_full)
    many = cost_of_a_release(sizes, layout, MANY, root_is_full=root_is_full)
    assert (len(few.served), len(many.served)) == (1, 1)
    assert many.lines <= 2 * few.lines


@pytest.mark.parametrize("layout", [in_one_application, in_many_applications, in_many_queues])
def test_a_release_without_use_costs_the_same_for_any_number_of_sizes(
    layout: Callable[[int], tuple[str, list[str]]],
) -> None:
    """A release after which no size fits has a cost that does not depend on the number of sizes."""
    few = cost_of_a_release(none_fits, layout, FEW, root_is_full=False)
    many = cost_of_a_release(none_fits, layout, MANY, root_is_full=False)
    assert (few.served, many.served) == ([], [])
    assert many.lines <= 2 * few.lines


def test_sizes_that_fit_nowhere_cost_one_search() -> None:
    """After one failed search, sizes at least as large in each type are not searched for.

    No single type rules a size out: half of the nodes have enough of one type, the rest of the other.
    """
    costs = []
    for count in (20, 1000):
        core = Core()
        core.do(register(config("[{name: a}]")), apps(app("own", "root.a")))
        amounts = [{"vcore": 10 + 990 * (n % 2), "memory": 1000 - 990 * (n % 2)} for n in (0, 1)]
        core.do(nodes(*(node(f"n{n}", size=amounts[n % 2]) for n in range(count))))
        core.do(asks(ask("own", "first", vcore=100, memory=100)))
        sizes = [(100 + number, 300 - number) for number in range(200)]
        wanted = (ask("own", f"k{n}", vcore=n, memory=other) for n, other in sizes)
        cost = core.cost_of(asks(*wanted, ask("own", "fits", vcore=10, memory=10)))
        assert cost.served == ["fits"]
        costs.append(cost.lines)
    few, many = costs
    assert many <= 1.1 * few

"""Backfill in the order `shortest`: the cost of an end, and the configuration.

A comparison of starts with a plain simulator is in `tests/server/lab/simulation/test_textbook.py`.
"""

import pytest

from licorne_core.config import load as configuration
from licorne_core.extensions.backfill import passing
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.values.ids import PartitionName
from licorne_core.values.tags import RUNTIME
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import START, Driver
from support.core.steps import last, lines_of_core

DEFAULT = PartitionName("[rm1]default")
LONG = 5_000


class Crowd:
    """A full node, a job that holds a planned start, and `number` jobs of one user that may not pass it.

    Jobs of that user end one by one.
    """

    def __init__(self, number: int) -> None:
        self.driver = Driver(sweep=1_000_000)
        order = "{backfill: easy, backfill.order: shortest}"
        self.driver.do(register(config("[{name: a}]", properties=order)), nodes(node("n1", cpu=10)))
        for name in ("old0", "old1", "old2"):
            self._submit(name, cpu=1, runtime=50)
        self._submit("block", cpu=7, runtime=1_000, user="bob")
        self._submit("holder", cpu=10, runtime=10, user="bob")
        for one in range(number):
            self._submit(f"new{one:04}", cpu=9, runtime=LONG)
        self._ended = 0

    def _submit(self, name: str, *, cpu: int, runtime: int, user: str = "ann") -> None:
        tags = {RUNTIME: str(runtime)}
        self.driver.send(apps(app(name, "root.a", user=user, tags=tags)))
        self.driver.send(asks(ask(name, "k", cpu=cpu)))
        self.driver.run()

    def end_one(self) -> int:
        """End a job of the user, and decide; return the executed lines of the core."""
        name, self._ended = f"old{self._ended}", self._ended + 1
        self.driver.wait(1.0)
        return lines_of_core(lambda: (self.driver.send(releases(release(name, "k"))), self.driver.run()))

    def learnt(self) -> int:
        """The number of waiting jobs that are ranked by runtimes of the user's former jobs."""
        leaf = self.driver.partition.tree.get("root.a")
        assert leaf is not None
        assert leaf.ranking.second is not None
        second = leaf.ranking.second
        keys = [entry.key for one in second.ranking.items() if (entry := second.ranking.entry(one))]
        return sum(0 < key[1] < LONG for key in keys if key[-1].startswith("new"))


@pytest.mark.parametrize(
    ("order", "found"), [("arrival", [(1, 1050), (2, 1200)]), ("shortest", [(2, 1100), (1, 1050)])]
)
def test_published_starts_follow_the_backfill_order(order: str, found: list[tuple[int, int]]) -> None:
    """Behind the first holder, the shorter of two asks has the earlier start if the order is `shortest`."""
    driver = Driver()
    properties = f"{{backfill: easy, backfill.order: {order}}}"
    driver.do(register(config("[{name: a}]", properties=properties)), nodes(node("n1", cpu=10)))
    for name, runtime in {"runs": 1_000, "holder": 50, "long": 150, "short": 50}.items():
        driver.do(apps(app(name, "root.a", tags={RUNTIME: str(runtime)})), asks(ask(name, "k", cpu=10)))
    told = []
    for name in ("long", "short"):
        start = last(driver.views.listed("expected_start", DEFAULT, name, "k", driver.now))
        told.append((driver.explain(name, "k").applications_ahead, start.starts_at - START))
    assert told == found


@pytest.mark.pure
@pytest.mark.parametrize(("spent", "found"), [(0, [0, 8, 12]), (1_000_000, [0, 0, 0])])
def test_an_end_ranks_a_bounded_number_of_jobs_again(
    spent: int, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later ends rank the jobs that earlier ones left out, as long as the budget allows."""
    monkeypatch.setattr(passing, "MOST_RANKED", 8)
    crowd = Crowd(12)
    budget = starts_of(crowd.driver.partition).passing.budget
    assert budget.has(crowd.driver.now)
    budget.spend(spent)
    ranked = []
    for _ in range(3):
        crowd.end_one()
        ranked.append(crowd.learnt())
    assert ranked == found


@pytest.mark.pure
def test_an_end_costs_little_more_if_many_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """For four times as many jobs of the user an end runs less than 1.5 times as many lines of the core."""
    monkeypatch.setattr(passing, "MOST_RANKED", 64)
    few, many = Crowd(100), Crowd(400)
    few.end_one()
    many.end_one()
    small, large = few.end_one(), many.end_one()
    assert large < 1.5 * small


def end_beside(leaves: int) -> int:
    """Executed lines of the core at the third end, with asks that wait in this number of leaves."""
    driver = Driver(sweep=1_000_000)
    names = ", ".join(f"{{name: q{number}}}" for number in range(leaves))
    order = "{backfill: easy, backfill.order: shortest}"
    driver.do(register(config(f"[{names}]", properties=order)), nodes(node("n1", cpu=10)))
    tags = {RUNTIME: "50"}
    driver.do(
        apps(app("run", "root.q0", tags=tags)), asks(*[ask("run", f"r{one}", cpu=1) for one in range(10)])
    )
    driver.do(apps(app("holder", "root.q0", tags=tags)), asks(ask("holder", "k", cpu=10)))
    for number in range(leaves):
        name = f"w{number}"
        driver.do(apps(app(name, f"root.q{number}", user="bob", tags={RUNTIME: str(LONG)})))
        driver.do(asks(ask(name, "large", cpu=9), ask(name, "small", cpu=1)))
    driver.do(releases(*[release(f"w{number}", "small") for number in range(leaves)]))
    for key in ("r0", "r1"):
        driver.wait(1.0)
        driver.do(releases(release("run", key)))
    driver.wait(1.0)
    return lines_of_core(lambda: (driver.send(releases(release("run", "r2"))), driver.run()))


@pytest.mark.pure
def test_an_end_costs_little_more_beside_many_leaves() -> None:
    """The amounts of withdrawn asks cause no search in their leaves."""
    assert end_beside(80) < 1.5 * end_beside(20)


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ("{backfill: easy, backfill.order: shortest, backfill.order.until: 12h}", ""),
        ("{backfill: easy, backfill.order: longest}", "is none of arrival, shortest"),
        (
            "{backfill: easy, backfill.order: shortest, backfill.order.until: soon}",
            "is no duration from zero up, such as 10m",
        ),
    ],
)
def test_an_invalid_backfill_order_is_reported(properties: str, told: str) -> None:
    """The problem names the allowed values; a valid order has none."""
    found = configuration(config("[{name: a}]", properties=properties))
    texts = [*found.notes, *(str(problem) for problem in found.warnings)]
    assert [text for text in texts if told and told in text] == texts
    assert bool(texts) == bool(told)

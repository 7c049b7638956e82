"""No node is kept for long for an ask that could not have it, whoever waits for it (§ 8.6)."""

from collections.abc import Iterator
from random import Random

import pytest

from licorne_core.ledger.reserving import REVIEW_TIME
from licorne_core.messages.effects import Effect
from licorne_core.messages.reasons import AnswersCheck, QueueCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Reservation
from licorne_core.views.explain import first_failing, subject_of
from support.core.builders import (
    MANY_RESERVED,
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
)
from support.core.driver import Driver, placed
from support.seeds import lively

SLACK = 2 * REVIEW_TIME + 0.01
"""Seconds beyond the time-out of a reservation: one review finds it idle, another one ends it."""

STEPS = 120
LEAVES = ("a", "b", "c", "d")
USERS = ("ann", "bob")


class _Watch:
    """Since when each reservation is in vain, by a look whenever the core rests."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.since: dict[Reservation, float] = {}
        self.seen = 0

    def look(self) -> None:
        """Reservations of asks that could not go."""
        found: dict[Reservation, float] = {}
        for partition in self.driver.scheduler.partitions.values():
            if partition.holds:
                continue
            for reservation, leaf_timeout in _in_vain(partition):
                since = self.since.get(reservation, self.driver.now)
                found[reservation] = since
                waited = self.driver.now - since
                assert waited <= leaf_timeout + SLACK, f"{reservation} for {waited} s in vain"
        self.seen += len(found.keys() - self.since.keys())
        self.since = found


def _in_vain(partition: Partition) -> Iterator[tuple[Reservation, float]]:
    for owner in partition.applications.values():
        for request in owner.reserved.values():
            reservation = request.reservation
            if reservation is None or reservation.node_id is None or not request.is_pending:
                continue
            if not _could_go(partition, owner, request):
                yield reservation, owner.leaf.settings.reservation_idle_timeout


def _could_go(partition: Partition, owner: Application, request: Request) -> bool:
    """True if the ask would be placed if the room on its node were free."""
    stop = first_failing(partition.check_context, subject_of(owner, request))
    by_cluster = isinstance(stop, QueueCheck) and stop.is_root
    return stop is None or by_cluster or isinstance(stop, AnswersCheck)


def play(seed: int) -> int:
    """A crowded cluster whose queues and users have little; reservations in vain for a while."""
    rng = Random(seed)
    driver = Driver(sweep=50)
    watch = _Watch(driver)
    driver.do(register(config(_queues(rng), properties=MANY_RESERVED)))
    count = rng.randint(3, 6)
    driver.do(nodes(*(node(f"n{number}", vcore=10) for number in range(count))))
    owners = [app(f"app-{leaf}", f"root.{leaf}", user=rng.choice(USERS)) for leaf in LEAVES]
    driver.do(apps(*owners))
    running: list[tuple[str, str]] = []
    for step in range(STEPS):
        owner = str(rng.choice(owners).app_id)
        chance = rng.random()
        if chance < 0.45:
            size = rng.choice([1, 2, 3, 6, 8, 9])
            running += _placed(driver.do(asks(ask(owner, f"k{step}", vcore=size))))
        elif chance < 0.55:
            # The RM brings it along: it may take its queue and its user above what they may have.
            here = f"n{rng.randrange(count)}"
            running += _placed(driver.do(asks(ask(owner, f"k{step}", vcore=5, on_node=here))))
        elif running and rng.random() < 0.6:
            ended = running.pop(rng.randrange(len(running)))
            running += _placed(driver.do(releases(release(*ended))))
        end = driver.now + rng.choice([0.0, 0.2, 1.0, 4.0])
        while (deadline := driver.scheduler.next_deadline()) is not None and deadline <= end:
            driver.now = max(driver.now, deadline)
            running += _placed(driver.run())
            watch.look()
        driver.now = end
        watch.look()
    return watch.seen


def _queues(rng: Random) -> str:
    """Leaves with maxima, guarantees and limits of their users."""
    leaves = []
    for leaf in LEAVES:
        most = rng.choice([8, 14, 20, 60])
        due = rng.choice([0, 4, 8])
        least = min(most, rng.choice([9, 40]))
        limit = f"{{limit: l, users: ['*'], maxresources: {{vcore: {least}m}}}}"
        timeout = f"{{reservation.idle.timeout: {rng.choice(['1s', '2s', '5s'])}}}"
        resources = f"{{max: {{vcore: {most}m}}, guaranteed: {{vcore: {due}m}}}}"
        leaves.append(f"{{name: {leaf}, resources: {resources}, limits: [{limit}], properties: {timeout}}}")
    return f"[{', '.join(leaves)}]"


def _placed(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(app_id, key) for app_id, key, _ in placed(effects)]


@pytest.mark.worlds(first=9_500_000, one_in=2)
def test_no_node_is_kept_long_for_an_ask_that_could_not_have_it(part: range) -> None:
    """The node of an ask that any check stops is given up at the review after the time-out."""
    seen = sum(map(play, part))
    assert seen >= lively(len(part)) // 2, f"{seen} reservations were in vain"

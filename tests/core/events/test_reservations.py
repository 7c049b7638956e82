"""What those who watch hear of nodes that are kept for asks (spec §§ 7.8, 8.5-8.7)."""

import pytest

from licorne_core.events.journal import EventChange, EventDetail
from licorne_core.messages.commands import Command, NodeAction, Tick
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver
from support.core.watching import records

AGE = 2.0
"""Seconds after which an ask that fits nowhere has a node reserved."""

Change = tuple[EventChange, str, float]


def reservations(driver: Driver, begin: float) -> list[Change]:
    """What was heard of reservations since last time, and how many seconds after `begin`."""
    return [
        (record.change, record.reference_id, record.time - begin)
        for record in records(driver)
        if record.detail is EventDetail.NODE_RESERVATION
    ]


ENDS: dict[str, Command] = {
    "the ask is not wanted": releases(release("job", "large")),
    "the ask fits the node": releases(release("job", "small")),
    "the ask is of another size": asks(ask("job", "large", memory=9)),
    "the ask is put on a node": asks(ask("job", "large", on_node="n", memory=4)),
    "another ask requires the node": asks(ask("job", "daemon", required_node="n", memory=2)),
    "the node shrinks": nodes(node("n", NodeAction.UPDATE, memory=3)),
    "the node goes": nodes(node("n", NodeAction.DECOMISSION)),
    "the time is over": Tick(),
}


@pytest.mark.parametrize("command", ENDS.values(), ids=ENDS.keys())
def test_reservations_begin_and_end_at_the_time_of_what_does_it(command: Command) -> None:
    """Both records bear the time of the command that made or ended the reservation."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n", memory=4), node("m", memory=3)))
    driver.do(apps(app("job", "root.a")), asks(ask("job", "small", on_node="n", memory=1)))
    begin = driver.now
    driver.do(asks(ask("job", "large", memory=4)))
    driver.wait(AGE)
    assert reservations(driver, begin) == [(EventChange.ADD, "large", AGE)]
    driver.now += 3600.0
    driver.do(command)
    ended = (EventChange.REMOVE, "large", AGE + 3600.0)
    assert reservations(driver, begin)[0] == ended

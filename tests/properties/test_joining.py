"""Items that a client joins into few requests have the same effects as items sent one by one."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from licorne.outgoing import Packer
from licorne.v1.session_pb2 import UpdateRequest
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    Effect,
    NodesAnswered,
)
from licorne_server.wire.asks import AskReader
from licorne_server.wire.framing import Pace, split
from licorne_server.wire.requests import REQUESTS
from licorne_server.wire.responses import Kind
from support.core.builders import RM, register
from support.core.driver import Driver, placed
from support.core.replicas import digest
from support.wire.drawing import localized, messages
from support.wire.items import GOOD, AppItem, AskItem, NodeItem, RemovalItem
from support.wire.ledger import Item

MAX_ITEMS = 6
"""A low maximum of items, so that some requests are full."""

KINDS = {"nodes": Kind.NODES, "applications": Kind.APPLICATIONS, "allocations": Kind.ALLOCATIONS}


def put(packer: Packer, item: Item) -> None:
    """Queue an item, as a client does."""
    if isinstance(item, NodeItem):
        packer.nodes([item.message()])
    elif isinstance(item, AppItem):
        packer.new_applications([item.message()])
    elif isinstance(item, RemovalItem):
        packer.removed_applications([item.message()])
    elif isinstance(item, AskItem):
        packer.allocations([item.message()])
    else:
        packer.releases([item.message()])


def requests(items: Iterable[Item], max_items: int) -> list[UpdateRequest]:
    """The requests with these items, each with at most `max_items` of them."""
    packer = Packer(max_items)
    for item in items:
        put(packer, item)
    return list(iter(packer.take, None))


async def carry_out(driver: Driver, request: UpdateRequest) -> list[Effect]:
    """Process a request in the same way as the server; return the effects."""
    name = request.WhichOneof("message")
    assert name is not None
    layout, steps_of = REQUESTS[KINDS[name]]
    pace = Pace(asyncio.Lock())
    payload = getattr(request, name).SerializeToString()
    taken = await steps_of(AskReader(RM), await split(payload, layout, pace), 500, pace)
    effects: list[Effect] = []
    for step in taken.steps:
        effects += [step] if isinstance(step, Effect) else driver.send(step)
    return effects


def answered(effects: Sequence[Effect]) -> Counter[tuple[str, ...]]:
    """The answers about the RM's items, regardless of the order of the kinds of answers."""
    told: Counter[tuple[str, ...]] = Counter()
    for effect in effects:
        match effect:
            case NodesAnswered() | ApplicationsAnswered():
                told.update(("accepted", one) for one in effect.accepted)
                told.update(("rejected", *map(str, one)) for one in map(vars_of, effect.rejected))
            case AllocationsRejected():
                told.update(("rejected", *map(str, one)) for one in map(vars_of, effect.rejections))
            case AllocationsMade():
                told.update(("allocated", one.ask.app_id, one.key, one.node_id) for one in effect.allocations)
            case AllocationsReleased():
                told.update(("released", *map(str, one)) for one in map(vars_of, effect.releases))
            case _:
                pass
    return told


def vars_of(thing: Any) -> list[object]:
    """The values of a message of the core."""
    return [getattr(thing, name) for name in sorted(type(thing).__annotations__)]


async def compare(spells: Sequence[Sequence[tuple[str, list[Item]]]], config: str) -> None:
    """Send the same items to two cores, joined and singly, and compare books, answers and decisions."""
    joined, single = Driver(), Driver()
    for driver in (joined, single):
        driver.do(register(config))
    for spell in spells:
        items = [localized(item, RM) for _, said in spell for item in said]
        told = []
        for driver, most in ((joined, MAX_ITEMS), (single, 1)):
            effects = []
            for request in requests(items, most):
                effects += await carry_out(driver, request)
            told.append(answered(effects))
        assert told[0] == told[1], items
        assert books(joined) == books(single), items
        assert placed(joined.run()) == placed(single.run()), items


def books(driver: Driver) -> dict[str, Any]:
    """The books of all partitions."""
    return {name: digest(known) for name, known in driver.scheduler.partitions.items()}


@pytest.mark.worlds(one_in=4, size=60)
def test_joined_items_have_the_effects_of_single_items(part: range) -> None:
    """Joined nodes, applications, asks and releases, valid or not, have the effects of single ones."""

    @hypothesis.seed(part[0])
    @hypothesis.settings(
        max_examples=len(part),
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        spells=st.lists(st.lists(messages, min_size=1, max_size=8), min_size=1, max_size=4),
        config=st.sampled_from(GOOD[:4]),
    )
    def holds(spells: list[list[tuple[str, list[Item]]]], config: Any) -> None:
        asyncio.run(compare(spells, config.text))

    holds()

"""Nodes that are kept or required, seen from outside (spec §§ 8.5-8.7)."""

from typing import Any

import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask, node

REQUIRED = "yunikorn.apache.org/requiredNode"


def bound(key: str, node_id: str, vcore: int = 100, app_id: str = "big") -> si.Allocation:
    """An ask that wants one node and no other, as those of a daemon set do."""
    return ask(key, app_id, vcore, allocationTags={REQUIRED: node_id})


@pytest.fixture
async def fragmented(rm: ServedRm) -> ServedRm:
    """Two nodes of 1000, each with 400 of application `small`, and an application `big`."""
    await rm.register("", n1=1000, n2=1000)
    await rm.submit(application("small"), application("big"))
    await rm.ask(ask("s1", "small", 400), ask("s2", "small", 400))
    assert (await rm.heard()).new == [("s1", "n1"), ("s2", "n2")]
    return rm


async def reserved(rm: ServedRm) -> dict[str, list[Any]]:
    """The reservations of every node that is reserved, as REST shows them."""
    shown = await rm.get("nodes")
    assert all(item["isReserved"] == bool(item["reservations"]) for item in shown)
    return {item["nodeID"]: item["reservations"] for item in shown if item["isReserved"]}


@pytest.mark.row(124)
async def test_an_ask_for_one_node_goes_nowhere_else(fragmented: ServedRm) -> None:
    """It waits while its node is not there, however much room others have, and then runs on it."""
    await fragmented.ask(bound("d", "n3"))
    await fragmented.wait(3600)
    assert (await fragmented.heard()).new == []
    await fragmented.tell_nodes(node("n3", vcore=100))
    assert (await fragmented.heard()).new == [("d", "n3")]


@pytest.mark.row(124)
async def test_an_ask_for_a_full_node_waits_for_that_node(fragmented: ServedRm) -> None:
    """Its node is reserved at once, and it runs there when there is room."""
    await fragmented.ask(bound("d", "n2", 700))
    assert list(await reserved(fragmented)) == ["n2"]
    await fragmented.release("s1", app_id="small")
    await fragmented.tell_nodes(node("n3", vcore=1000))
    # It is tried again as its node changes, and does not fit there yet.
    await fragmented.ask(ask("s2", "small", 350))
    assert (await fragmented.heard()).new == []
    await fragmented.release("s2", app_id="small")
    assert (await fragmented.heard()).new == [("d", "n2")]
    assert await reserved(fragmented) == {}


@pytest.mark.row(125)
async def test_a_big_ask_runs_in_the_end(fragmented: ServedRm) -> None:
    """After two seconds a node is kept for it, and small asks that come and go do not get in."""
    await fragmented.ask(ask("b", "big", 800))
    await fragmented.wait(1.9)
    assert await reserved(fragmented) == {}
    await fragmented.wait(0.1)
    assert list(await reserved(fragmented)) == ["n1"]
    assert (await fragmented.app("big"))["hasReserved"]
    assert await fragmented.events("NODE_RESERVATION") == [("NODE_RESERVATION", "n1")]
    for turn in range(5):
        await fragmented.ask(ask(f"churn{turn}", "small", 300))
        assert (await fragmented.heard()).new == [(f"churn{turn}", "n2")]
        await fragmented.release(f"churn{turn}", app_id="small")
    await fragmented.ask(*(ask(f"more{i}", "small", 300) for i in range(9)))
    await fragmented.release("s1", app_id="small")
    assert (await fragmented.heard()).new == [("more0", "n2"), ("more1", "n2"), ("b", "n1")]
    assert await reserved(fragmented) == {}


@pytest.mark.row(126)
@pytest.mark.parametrize(("freed", "node_id"), [("s1", "n1"), ("s2", "n2")])
async def test_what_becomes_free_goes_to_the_ask_that_has_a_node_reserved(
    fragmented: ServedRm, freed: str, node_id: str
) -> None:
    """On its node or on another: newer asks come after it, those of a higher priority as well."""
    await fragmented.ask(ask("b", "big", 800))
    await fragmented.wait(2)
    assert list(await reserved(fragmented)) == ["n1"]
    await fragmented.ask(ask("newer", "small", 900, priority=9))
    await fragmented.release(freed, app_id="small")
    assert (await fragmented.heard()).new == [("b", node_id)]
    assert await reserved(fragmented) == {}


@pytest.mark.row(127)
async def test_an_impossible_ask_blocks_nobody(fragmented: ServedRm) -> None:
    """What no node could ever hold keeps none, and those behind it run."""
    await fragmented.ask(ask("never", "big", 1001, priority=9))
    await fragmented.wait(10)
    assert await reserved(fragmented) == {}
    await fragmented.ask(ask("b", "big", 600))
    assert (await fragmented.heard()).new == [("b", "n1")]
    await fragmented.ask(ask("s3", "small", 600))
    assert (await fragmented.heard()).new == [("s3", "n2")]


@pytest.mark.row(128)
async def test_a_required_node_is_taken_over(fragmented: ServedRm) -> None:
    """The reservation of another application gives way to an ask that wants this very node."""
    await fragmented.ask(ask("b", "big", 800))
    await fragmented.wait(2)
    before = await reserved(fragmented)
    assert list(before) == ["n1"]
    await fragmented.submit(application("daemons"))
    await fragmented.ask(bound("d", "n1", 700, "daemons"))
    after = await reserved(fragmented)
    assert after["n1"] != before["n1"]
    assert (await fragmented.app("daemons"))["reservations"] == ["d"]
    await fragmented.release("s1", app_id="small")
    assert (await fragmented.heard()).new == [("d", "n1")]


@pytest.mark.row(128)
async def test_an_ask_that_fits_its_node_does_not_wait_behind_a_reservation(
    fragmented: ServedRm,
) -> None:
    """A small one of a daemon set runs at once on the node, which is kept no more."""
    await fragmented.ask(ask("b", "big", 800))
    await fragmented.wait(2)
    assert list(await reserved(fragmented)) == ["n1"]
    await fragmented.ask(bound("d", "n1"))
    assert (await fragmented.heard()).new == [("d", "n1")]
    assert list(await reserved(fragmented)) == ["n2"]

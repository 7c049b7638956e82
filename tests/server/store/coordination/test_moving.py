"""Moves for balance: one at a time in the deployment, with pauses; drain, claim and redirect in order."""

import json
from collections.abc import Callable

import pytest

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.moving import FREE_SECONDS, MOVES, Guard
from licorne_server.store.coordination.snapshots import GONE_SECONDS
from licorne_server.store.coordination.store import Member, MemberId
from licorne_server.store.documents.documents import Conflict, Document
from support.coordination.deployment import Deployment, Node

Deploy = Callable[..., Deployment]
RMS = [f"rm{number}" for number in range(6)]


def burden(node: Node, cores: float) -> None:
    """Let a node serve all RMs, each with this load."""
    for rm_id in RMS:
        assert isinstance(node.take(rm_id), int)
    node.load = {RmId(rm_id): cores for rm_id in RMS}


def follow(nodes: list[Node]) -> None:
    """Let the load of an RM move with it, as if measured."""
    for rm_id in nodes[0].handed_over:
        if (cores := nodes[0].load.pop(RmId(rm_id), None)) is not None:
            nodes[1].load[RmId(rm_id)] = cores


def test_a_new_member_gets_its_share_gradually(deploy: Deploy) -> None:
    """RMs move to an empty member one by one with pauses, until a move would help too little."""
    deployment = deploy("a:1")
    (first,) = deployment.nodes
    burden(first, 0.1)
    second = deployment.add("b:1")
    counts = []
    for _ in range(40):
        deployment.pass_time(1.0)
        follow([first, second])
        counts.append(len(first.handed_over))
    assert counts[1] <= 1
    assert all(later - earlier <= 1 for earlier, later in zip(counts, counts[4:], strict=False))
    assert counts[-1] == 3
    for rm_id in first.handed_over:
        answer = first.take(rm_id)
        assert isinstance(answer, Member)
        assert answer.id == second.member.me()
        assert isinstance(second.take(rm_id), int)
    guard = Guard.read(deployment.store.read(MOVES))
    assert guard.holder == ""
    assert RmId(first.handed_over[-1]) in guard.rms


def test_the_new_owner_is_named_after_the_drain(deploy: Deploy) -> None:
    """While an RM drains, its record names the previous owner, and other members wait."""
    deployment = deploy("a:1")
    (first,) = deployment.nodes
    burden(first, 0.1)
    first.drain_seconds = 3.0
    deployment.add("b:1")
    deployment.pass_time(2.5)
    assert Guard.read(deployment.store.read(MOVES)).holder == first.member.me()
    assert {deployment.record(rm_id).owner for rm_id in RMS} == {first.member.me()}
    (moving,) = Guard.read(deployment.store.read(MOVES)).rms
    assert isinstance(first.take(moving), Member)
    assert first.handed_over == [moving]


def test_a_move_of_another_member_excludes_others(deploy: Deploy) -> None:
    """While a living member holds the guard, no other moves an RM; the guard of a dead member is free."""
    deployment = deploy("a:1")
    (first,) = deployment.nodes
    burden(first, 0.1)
    second = deployment.add("b:1")
    guard = Guard().taken(second.member.me(), RmId("x"), 0.0)
    revision = deployment.store.read(MOVES).revision
    if not first.handed_over:
        deployment.store.compare_and_set(MOVES, guard.written(second.member.me()), revision)
    before = len(first.handed_over)
    deployment.pass_time(10.0)
    assert len(first.handed_over) == before
    deployment.store.leave(second.member.me())
    deployment.pass_time(10.0)
    assert len(first.handed_over) > before


def test_concurrent_members_take_the_guard_once(deploy: Deploy) -> None:
    """Of two members that balance at the same moment one moves an RM."""
    deployment = deploy("a:1", "b:1")
    served = [[rm_id for rm_id in RMS if isinstance(node.take(rm_id), int)] for node in deployment.nodes]
    assert min(map(len, served)) > 1
    deployment.pass_time(4.0)
    # From now on neither member sees the other's writes.
    before = deployment.store.snapshot
    for node, rm_ids in zip(deployment.nodes, served, strict=True):
        node.weather.forgotten = 1.0
        node.network.read = lambda: before  # type: ignore[method-assign]
        node.load = {RmId(rm_id): 0.6 / len(rm_ids) for rm_id in rm_ids}
        node.drain_seconds = 2.0
    refused: list[str] = []
    compare_and_set = deployment.store.compare_and_set

    def counted(key: str, value: bytes | None, revision: int) -> int:
        try:
            return compare_and_set(key, value, revision)
        except Conflict:
            refused.append(key)
            raise

    deployment.store.compare_and_set = counted  # type: ignore[method-assign]
    deployment.pass_time(10.0)
    assert set(refused) == {MOVES}
    assert sum(len(node.handed_over) for node in deployment.nodes) == 1


def test_rms_of_a_dead_member_are_released_in_the_end(deploy: Deploy) -> None:
    """A dead member is reported until it returns, for at most ten minutes; then its RMs have no owner."""
    for is_back in (False, True):
        deployment = deploy("a:1", "b:1")
        first, second = deployment.nodes
        rms = [rm_id for rm_id in RMS if isinstance(first.take(rm_id), int)]
        dead = first.member.me()
        first.loop.end()
        deployment.pass_time(20.0)
        [gone] = second.member.gone.values()
        assert (gone.member.id, gone.member.name, gone.is_over) == (dead, "a:1", False)
        assert {deployment.record(rm_id).owner for rm_id in rms} == {dead}
        if is_back:
            deployment.add("a:1")
        deployment.pass_time(10.0 + (FREE_SECONDS if is_back else GONE_SECONDS))
        assert {deployment.record(rm_id).owner for rm_id in rms} == {""}
        assert second.member.gone == {}


def test_the_guard_forgets_old_moves() -> None:
    """RMs that were moved long ago are removed from the document."""
    guard = Guard(rms={"old": 0.0, "new": 990.0}).taken(MemberId("m"), RmId("rm"), 1000.0)
    assert guard.rms == {"new": 990.0, "rm": 1000.0}
    assert Guard.read(Document(value=guard.written("m"), revision=1)) == guard
    assert json.loads(guard.written(""))["holder"] == ""


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b'{"rms": 3}', b'{"since": "x"}', b"\xff", b'{"rms": {"a": null}}']
)
def test_a_damaged_guard_is_replaced(text: bytes) -> None:
    """After a foreign write of the document moves continue."""
    assert Guard.read(Document(value=text, revision=1)) == Guard()

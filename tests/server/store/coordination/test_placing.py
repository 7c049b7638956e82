"""The choice of a member for an RM, and of the next move."""

from collections import Counter

import pytest

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.placing import REST, candidates, choose, next_move
from licorne_server.store.coordination.store import Member, MemberId, Snapshot

RMS = [RmId(f"rm{number}") for number in range(400)]
NOW = 1_700_000_000.0


def member(name: str, load: dict[str, float] | None = None, **fields: object) -> Member:
    """A member at an address of that name."""
    of_rms = {RmId(rm_id): cores for rm_id, cores in (load or {}).items()}
    return Member(id=MemberId(name), name=name, address=f"{name}:1", load=of_rms, **fields)  # type: ignore[arg-type]


def shares(members: list[Member]) -> Counter[str]:
    """The number of RMs of each member."""
    return Counter(chosen.name for rm_id in RMS if (chosen := choose(rm_id, members)))


def test_rms_are_spread_over_equal_members() -> None:
    """Each of four members gets about a quarter."""
    found = shares([member(name) for name in "abcd"])
    assert all(70 <= count <= 130 for count in found.values()), found


def test_a_loaded_member_gets_less() -> None:
    """A member with a quarter of its core free gets about a quarter of the RMs of an idle one."""
    found = shares([member("a", {"x": 0.75}), member("b")])
    assert 50 <= found["a"] <= 110, found


def test_busy_members_get_rms_if_all_are_busy() -> None:
    """Members without a free core still get RMs when all are busy."""
    found = shares([member("a", {"x": 1.5}), member("b", {"y": 2.0})])
    assert min(found["a"], found["b"]) > 150


def test_the_end_of_a_member_moves_its_own_rms_only() -> None:
    """RMs of the remaining members stay there."""
    members = [member(name) for name in "abc"]
    for rm_id in RMS:
        before = choose(rm_id, members)
        after = choose(rm_id, members[:2])
        assert before is not None
        assert before.name == "c" or after == before


def test_without_members_none_is_chosen() -> None:
    """Without members there is no choice."""
    assert choose(RMS[0], []) is None


def test_candidates_serve_and_are_compatible() -> None:
    """A draining, incompatible, or restarted member gets no RM."""
    me = member("a", protocols=(2, 3))
    members = (
        member("a", protocols=(2,)),
        member("b", protocols=(1, 2)),
        member("c", protocols=(1,)),
        member("d", protocols=(3,), draining=True),
        Member(id=MemberId("e1"), name="e", address="e:1", protocols=(3,), started=1.0),
        Member(id=MemberId("e2"), name="e", address="e:1", protocols=(3,), started=2.0),
    )
    found = candidates(Snapshot(members={each.id: each for each in members}), me)
    assert {each.id for each in found} == {"a", "b", "e2"}
    assert me in found


BUSY = member("busy", {"large": 0.5, "middle": 0.3, "small": 0.1})
IDLE = member("idle")
HALF = member("half", {"other": 0.4})
RESTED = {RmId("large"): 0.0, RmId("middle"): 0.0, RmId("small"): 0.0}


def test_the_move_that_helps_most_is_made() -> None:
    """The RM moves from the most to the least loaded member that leaves the lowest maximum of the two."""
    move = next_move([BUSY, IDLE, HALF], BUSY.id, RESTED, NOW)
    assert move is not None
    assert (move.rm_id, move.target) == ("large", IDLE)


def test_only_the_most_loaded_member_moves() -> None:
    """No other member moves RMs, and neither does a member without others, or one that drains."""
    assert next_move([BUSY, IDLE, HALF], HALF.id, {RmId("other"): 0.0}, NOW) is None
    assert next_move([BUSY], BUSY.id, RESTED, NOW) is None
    assert next_move([IDLE, HALF], BUSY.id, RESTED, NOW) is None


@pytest.mark.parametrize(("age", "moved"), [(REST - 1, "middle"), (REST, "large"), (-1000.0, "large")])
def test_no_rm_moves_twice_in_ten_minutes(age: float, moved: str) -> None:
    """An RM that was moved recently stays, unless the recorded time is in the future."""
    move = next_move([BUSY, IDLE], BUSY.id, RESTED | {RmId("large"): NOW - age}, NOW)
    assert move is not None
    assert move.rm_id == moved


def test_many_small_rms_move_one_by_one() -> None:
    """Though the gain of a single small RM is small, the first of many moves."""
    busy = member("busy", dict.fromkeys(RMS[:100], 0.006))
    movable = dict.fromkeys(RMS[:100], 0.0)
    assert next_move([busy, IDLE], busy.id, movable, NOW) is not None
    fair = member("fair", {"x": 0.25})
    some = member("some", dict.fromkeys(RMS[:55], 0.006))
    assert next_move([some, fair], some.id, dict.fromkeys(RMS[:55], 0.0), NOW) is None


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ({"a": 0.5, "b": 0.09}, {}),
        ({"a": 0.9}, {}),
        ({"a": 0.02, "b": 0.02}, {}),
        ({"a": 0.3, "b": 0.3}, {"c": 0.25}),
        ({}, {}),
    ],
    ids=["15 per cent", "one RM", "all idle", "equal in the end", "nothing"],
)
def test_moves_of_little_gain_are_not_made(source: dict[str, float], target: dict[str, float]) -> None:
    """Moves that lower the highest load by less than a fifth are not made."""
    busy = member("busy", source)
    movable = {RmId(rm_id): 0.0 for rm_id in source}
    assert next_move([busy, member("other", target)], busy.id, movable, NOW) is None

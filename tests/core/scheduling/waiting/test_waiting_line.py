"""The line of items that wait for a blocker, in the order of a ranking."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.scheduling.waiting import waiting_line as waiting_lines
from licorne_core.scheduling.waiting.waiting_line import Amounts, LineOwner, WaitingLine
from licorne_core.values.ranking import Ranked, Ranking
from licorne_core.values.resources import Items


def key_of(line: WaitingLine, ranking: Ranking[Any], limit: Ranked | None = None) -> Any:
    """The key of the first item before the limit, or None."""
    entry = line.first(ranking, limit)
    return None if entry is None else entry.key


def item_of(line: WaitingLine, ranking: Ranking[Any]) -> Any:
    """The first item, or None."""
    entry = line.first(ranking)
    return None if entry is None else entry.item


class Sizes(LineOwner):
    """Items that request vcore and memory, and the room for them.

    The class inherits from the core, so its tests run only without compilation.
    """

    def __init__(self) -> None:
        """Start without items and room; `asked` counts the comparisons with the room."""
        super().__init__()
        self.wanted: dict[int, tuple[int, int]] = {}
        self.room = {"vcore": 0, "memory": 0}
        self.asked = 0

    def wanted_by(self, item: int) -> Items:
        """The amounts that an item requests, without zeros."""
        pairs = zip(("vcore", "memory"), self.wanted[item], strict=True)
        return tuple((name, value) for name, value in pairs if value)

    def may_fit(self, least: Amounts) -> bool:
        """Whether the room has these amounts."""
        self.asked += 1
        return all(self.room[name] >= value for name, value in least.items())

    def passes(self, item: int) -> bool:
        """Whether the item fits."""
        return self.may_fit(dict(self.wanted_by(item)))


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "add", "add", "remove", "set aside", "activate"]),
        st.integers(0, 4),
        st.integers(0, 9),
    ),
    max_size=80,
)


@given(steps)
def test_the_first_item_of_a_line_has_the_smallest_key(steps: list[tuple[str, int, int]]) -> None:
    """After any changes of keys and members, the first item has the smallest key, set aside or not."""
    ranking: Ranking[int] = Ranking()
    keys = {item: 2 * item for item in range(5)}
    reasons = dict.fromkeys(keys, 1)
    for item, key in keys.items():
        ranking.put(item, (key, item))
    line = WaitingLine(ranking, LineOwner())
    for item in keys:
        line.add(item, ranking, ())
    for what, item, key in steps:
        if what == "put":
            ranking.put(item, (key, item))
            keys[item] = key
        elif what == "add":
            line.add(item, ranking, ())
            reasons[item] = reasons.get(item, 0) + 1
        elif what == "remove" and item in reasons:
            line.remove(item)
            reasons[item] -= 1
            if not reasons[item]:
                del reasons[item]
        elif what == "set aside":
            ranking.set_aside(item)
        elif what == "activate":
            ranking.activate(item)
        assert line.members == reasons
        if reasons:
            expected = min((keys[member], member) for member in reasons)
            assert key_of(line, ranking) == expected


@pytest.mark.parametrize("every", [1, 2, 3, 20, 30, 37])
def test_a_line_is_right_after_a_pause(every: int) -> None:
    """If the ranking has dropped old changes, the line is rebuilt from its members."""
    ranking: Ranking[str] = Ranking()
    for number, item in enumerate("abcd"):
        ranking.put(item, (1000 + number,))
        ranking.set_aside(item)
    line = WaitingLine(ranking, LineOwner())
    for item in "abcd":
        line.add(item, ranking, ())
    for step in range(300):
        item = "abcd"[step % 4]
        ranking.put(item, (900 - step,))
        ranking.set_aside(item)
        if step % every == 0:
            assert item_of(line, ranking) == item


def test_an_application_remains_in_a_line_while_an_item_in_it_waits() -> None:
    """An item that was added twice remains in the line until it is removed twice."""
    ranking: Ranking[str] = Ranking()
    ranking.put("app", (1,))
    line = WaitingLine(ranking, LineOwner())
    line.add("app", ranking, ())
    line.add("app", ranking, ())
    line.remove("app")
    assert item_of(line, ranking) == "app"
    line.remove("app")
    assert not line.members


def test_a_line_finds_items_after_many_removals() -> None:
    """After a thousand removals the remaining items are found."""
    ranking: Ranking[int] = Ranking()
    for item in range(2):
        ranking.put(item, (item,))
    line = WaitingLine(ranking, LineOwner())
    line.add(1, ranking, ())
    for _ in range(1000):
        line.add(0, ranking, ())
        assert item_of(line, ranking) == 0
        line.remove(0)
    assert item_of(line, ranking) == 1
    assert line.members == {1: 1}


sized = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "add", "add", "add", "remove", "leave", "look", "look"]),
        st.integers(0, 30),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=120,
)


@pytest.mark.pure
@given(sized, st.sampled_from([2, 64]))
def test_a_line_and_a_full_scan_find_the_same_first_item(
    history: list[tuple[str, int, int, int]], chunk: int
) -> None:
    """After any history, a line and a full scan find the same first fitting item, also before a limit."""
    ranking: Ranking[int] = Ranking()
    owner = Sizes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(waiting_lines, "CHUNK", chunk)
        line = WaitingLine(ranking, owner)
        for what, item, first, second in history:
            if what == "put":
                ranking.put(item, (first, item))
            elif what == "add" and item in ranking and item not in line.members:
                owner.wanted[item] = (first, second)
                line.add(item, ranking, owner.wanted_by(item))
            elif what == "remove" and item in line.members:
                line.remove(item)
            elif what == "leave" and item not in line.members:
                ranking.discard(item)
            if what == "look":
                owner.room = {"vcore": first, "memory": second}
                owner.changes += 1
            elif what != "add":
                # The limit may decrease without a report.
                owner.room = {name: left - (first == 0) for name, left in owner.room.items()}
            assert all(line.knows(member, owner.wanted_by(member)) for member in line.members)
            entries = [ranking.entry(member) for member in line.members if owner.passes(member)]
            fitting = sorted(entry for entry in entries if entry is not None)
            assert item_of(line, ranking) == (fitting[0].item if fitting else None)
            limit = ranking.entry(item)
            if limit is not None and fitting:
                expected = None if limit < fitting[0] else fitting[0].key
                assert key_of(line, ranking, limit) == expected


@pytest.mark.pure
def test_few_of_many_sizes_are_compared() -> None:
    """Among 4000 sizes the first fitting one is found with few comparisons."""
    ranking: Ranking[int] = Ranking()
    owner = Sizes()
    line = WaitingLine(ranking, owner)
    for item in range(4000):
        owner.wanted[item] = (5000 - item, 10)
        ranking.put(item, (item,))
        line.add(item, ranking, owner.wanted_by(item))
    owner.room = {"vcore": 1500, "memory": 10}
    owner.changes += 1
    owner.asked = 0
    assert item_of(line, ranking) == 3500
    assert owner.asked < 300
    owner.room = {"vcore": 900, "memory": 10}
    owner.changes += 1
    owner.asked = 0
    assert item_of(line, ranking) is None
    assert owner.asked < 200


@pytest.mark.pure
def test_a_waiting_line_drops_removed_items() -> None:
    """After any number of additions and removals, a line uses only the memory of its present items."""
    ranking: Ranking[int] = Ranking()
    owner = Sizes()
    line = WaitingLine(ranking, owner)
    for item in range(5000):
        owner.wanted[item] = (5, 5)
        ranking.put(item, (item,))
        line.add(item, ranking, owner.wanted_by(item))
        if item >= 10:
            line.remove(item - 10)
            ranking.discard(item - 10)
    assert sum(len(chunk.entries) for chunk in line._chunks) < 100


@pytest.mark.pure
def test_a_removed_small_item_costs_nothing_later() -> None:
    """After the removal of a small item, its neighbours are not compared one by one."""
    ranking: Ranking[int] = Ranking()
    owner = Sizes()
    line = WaitingLine(ranking, owner)
    for item in range(30):
        owner.wanted[item] = (1 if item == 7 else 9, 9)
        ranking.put(item, (item,))
        line.add(item, ranking, owner.wanted_by(item))
    line.remove(7)
    owner.room = {"vcore": 5, "memory": 9}
    for _ in range(2):
        owner.changes += 1
        owner.asked = 0
        assert item_of(line, ranking) is None
    assert owner.asked == 1

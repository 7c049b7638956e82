"""What leads to those whom one blocker blocks, in one ranking."""

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.ranking import Ranking
from licorne_core.scheduling.shelf import Shelf

steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "add", "add", "remove", "set aside", "activate"]),
        st.integers(0, 4),
        st.integers(0, 9),
    ),
    max_size=80,
)


@given(steps)
def test_the_first_is_the_member_with_the_smallest_key(steps: list[tuple[str, int, int]]) -> None:
    """After any changes of keys and members, and whether the members are set aside or not."""
    ranking: Ranking[int] = Ranking()
    shelf = Shelf(ranking)
    keys: dict[int, int] = {}
    reasons: dict[int, int] = {}
    for what, item, key in steps:
        if what == "put":
            ranking.put(item, (key, item))
            keys[item] = key
        elif what == "add" and item in keys:
            shelf.add(item, ranking)
            reasons[item] = reasons.get(item, 0) + 1
        elif what == "remove" and item in reasons:
            shelf.remove(item)
            reasons[item] -= 1
            if not reasons[item]:
                del reasons[item]
        elif what == "set aside":
            ranking.set_aside(item)
        elif what == "activate":
            ranking.activate(item)
        assert shelf.members == reasons
        if reasons:
            expected = min((keys[member], member) for member in reasons)
            assert shelf.first(ranking).key == expected


def test_a_member_for_two_reasons_stays_for_the_second() -> None:
    """An application may be blocked itself and lead to somebody inside."""
    ranking: Ranking[str] = Ranking()
    ranking.put("app", (1,))
    shelf = Shelf(ranking)
    shelf.add("app", ranking)
    shelf.add("app", ranking)
    shelf.remove("app")
    assert shelf.first(ranking).item == "app"
    shelf.remove("app")
    assert not shelf.members


def test_keys_that_shrink_oftener_than_is_remembered_are_all_read() -> None:
    """The ranking forgets what became smaller long ago; the shelf starts from its members then."""
    ranking: Ranking[str] = Ranking()
    for number, item in enumerate("abc"):
        ranking.put(item, (1000 + number,))
        ranking.set_aside(item)
    shelf = Shelf(ranking)
    for item in "abc":
        shelf.add(item, ranking)
    for round_ in range(300):
        item = "abc"[round_ % 3]
        ranking.put(item, (900 - round_,))
        ranking.set_aside(item)
        if round_ % 90 == 89:
            assert shelf.first(ranking).item == item


def test_a_shelf_on_which_items_come_and_go_finds_those_that_stayed() -> None:
    """What was taken off a thousand times hides nobody behind it."""
    ranking: Ranking[int] = Ranking()
    for item in range(2):
        ranking.put(item, (item,))
    shelf = Shelf(ranking)
    shelf.add(1, ranking)
    for _ in range(1000):
        shelf.add(0, ranking)
        assert shelf.first(ranking).item == 0
        shelf.remove(0)
    assert shelf.first(ranking).item == 1
    assert shelf.members == {1: 1}

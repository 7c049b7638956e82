"""The log of changes returns exactly the changes since a reader's last read."""

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import NodeSortPolicy
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node, Recent
from licorne_core.values.ids import NodeId

changes = st.lists(st.tuples(st.sampled_from(["note", "note", "forget"]), st.integers(0, 4)))


@given(changes, changes)
def test_a_reader_has_the_objects_changed_since_its_last_read(
    before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    """A reader has each changed object once, the latest first, without removed objects."""
    log: Recent[int] = Recent()
    follow(log, before)
    read = log.count
    expected = follow(log, after)
    assert list(log.since(read)) == expected[::-1]
    assert list(log.since(log.count)) == []


def follow(log: Recent[int], changes: list[tuple[str, int]]) -> list[int]:
    """Apply the changes; return the changed objects that exist, the latest last."""
    changed: list[int] = []
    for what, thing in changes:
        if thing in changed:
            changed.remove(thing)
        if what == "note":
            log.note(thing)
            changed.append(thing)
        else:
            log.forget(thing)
    return changed


def test_a_removed_node_is_forgotten() -> None:
    """The log keeps no removed nodes."""
    book = NodeBook(NodeSortPolicy())
    stays, goes = (Node(NodeId(name), {}, {}, schedulable=True) for name in ("n1", "n2"))
    book.add(stays)
    book.add(goes)
    book.remove(goes)
    assert list(book.changed.since(0)) == [stays]

"""Messages to viewers of the page: the whole state once, then changes."""

import json
from typing import Any

from licorne_server.http.ui import looking as boards
from licorne_server.http.ui.looking import Board
from licorne_server.http.ui.rows import Key


def look(board: Board, **values: int) -> None:
    """Take a snapshot with these entries; the first letter of a name is that of its RM."""
    board.begin()
    for name, value in values.items():
        board.put(Key("queues", name[0], "p", name), {"name": name, "value": value})
    list(board.end())


def since(board: Board, version: int, *visible: str) -> dict[str, Any]:
    """The message to a viewer of a version, with access to these RMs or to all."""
    text = "".join(board.since(version, visible.__contains__ if visible else None))
    found: dict[str, Any] = json.loads(f"{{{text}}}")
    return found


def test_a_new_viewer_gets_all_entries() -> None:
    """A new viewer gets all entries, including those that have not changed for long."""
    board = Board()
    look(board, a=1)
    look(board, a=1, b=2)
    found = since(board, 0)
    assert found["whole"]
    assert [row["name"] for row in found["queues"]] == ["a", "b"]


def test_a_viewer_of_the_last_version_gets_changes() -> None:
    """A viewer of the last version gets the changed entries, and the names of removed ones."""
    board = Board()
    look(board, a=1, b=2, c=3)
    version = board.version
    look(board, a=1, b=5)
    found = since(board, version)
    assert not found["whole"]
    assert found["queues"] == [{"name": "b", "value": 5}]
    assert found["gone"] == [["queues", "c", "p", "c"]]


def test_an_unchanged_snapshot_makes_no_version() -> None:
    """An up-to-date viewer gets no message; the first snapshot is sent even if it is empty."""
    board = Board()
    look(board)
    assert board.version == 1
    look(board)
    assert board.version == 1


def test_a_slow_viewer_gets_each_entry_once() -> None:
    """A viewer of an older version gets each entry in its present state, however often it changed."""
    board = Board()
    look(board, a=1, b=1)
    version = board.version
    look(board, a=2, b=1, c=1)
    look(board, a=3, b=1)
    found = since(board, version)
    assert found["queues"] == [{"name": "a", "value": 3}]
    assert found["gone"] == [["queues", "c", "p", "c"]]


def test_an_entry_that_returns_is_not_sent_as_removed() -> None:
    """A viewer that missed removal and return gets the entry only."""
    board = Board()
    look(board, a=1)
    version = board.version
    look(board)
    look(board, a=1)
    found = since(board, version)
    assert found["queues"] == [{"name": "a", "value": 1}]
    assert "gone" not in found


def test_a_viewer_of_a_very_old_version_gets_all_entries(monkeypatch: Any) -> None:
    """The names of removed entries are kept for a bounded number of versions."""
    monkeypatch.setattr(boards, "MAX_GONE", 2)
    board = Board()
    look(board, a=1, b=1, c=1, d=1)
    version = board.version
    look(board, a=1)
    assert since(board, version)["whole"]
    assert not since(board, board.version)["whole"]


def test_a_viewer_gets_entries_of_its_own_rms_only() -> None:
    """The rights apply to present and to removed entries."""
    board = Board()
    look(board, a1=1, b1=1, b2=1)
    assert [row["name"] for row in since(board, 0, "a")["queues"]] == ["a1"]
    assert len(since(board, 0)["queues"]) == 3
    assert len(since(board, 0, "a")["queues"]) == 1, "what others were told is not for it"
    version = board.version
    look(board, b2=2)
    found = since(board, version, "b")
    assert found["queues"] == [{"name": "b2", "value": 2}]
    assert found["gone"] == [["queues", "b", "p", "b1"]]
    assert "gone" in since(board, version)


def test_a_large_message_is_encoded_in_pieces() -> None:
    """The encoder may pause between pieces, and later changes are not mixed in."""
    board = Board()
    names = {f"a{number}": number for number in range(2_000)}
    look(board, **names)
    pieces = board.since(0, None)
    first = next(pieces)
    look(board, a1=7)
    rest = list(pieces)
    assert len(rest) > 2_000
    assert max(map(len, rest)) < 100
    told = json.loads(f"{{{first}{''.join(rest)}}}")
    assert {row["name"]: row["value"] for row in told["queues"]} == names
    assert told["version"] == 1


def test_entries_of_other_rms_are_skipped_in_pieces() -> None:
    """Entries that a viewer may not see are skipped in pieces, so that other tasks run in between."""
    board = Board()
    look(board, **{f"a{number}": number for number in range(2_000)})
    pieces = list(board.since(0, lambda rm_id: rm_id == "b"))
    assert len(pieces) > 5
    assert json.loads(f"{{{''.join(pieces)}}}") == {"version": 1, "whole": True}

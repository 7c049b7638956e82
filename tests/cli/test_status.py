"""`licorne status`: the whole server on one screen."""

import pytest

from licorne.v1.state_pb2 import (
    Application,
    GetHealthResponse,
    GetServerResponse,
    Node,
    NodeDrain,
    OperatorMark,
    Queue,
)
from licorne_cli.nouns import status
from licorne_cli.nouns import status_facts as gathering
from licorne_cli.nouns.status import Line, laid_out, lines_of, node_text
from licorne_cli.nouns.status_facts import Facts, add_applications, add_nodes, add_queues, bounded

MARK = OperatorMark(by="ann", time=1_700_000_000 * 10**9, message="disk\n")


def text_of(facts: Facts) -> dict[str, str]:
    """The text of each line."""
    return {line.name: line.text for line in lines_of(facts)}


def test_only_a_terminal_breaks_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal a line continues below its first word, and commands stay whole."""
    lines = [Line("rm", "RM a is not connected", "licorne rms"), Line("version", "licorne 1")]
    wide = ["!  rm       RM a is not connected (licorne rms)", "   version  licorne 1"]
    narrow = [wide[0].removesuffix(" (licorne rms)"), f"{'':12}(licorne rms)", wide[1]]
    monkeypatch.setattr(status, "terminal_width", lambda: 34)
    for terminal, expected in ((False, wide), (True, narrow)):
        monkeypatch.setattr(status, "is_terminal", lambda _, terminal=terminal: terminal)
        assert ["".join(text for text, _ in row) for row in laid_out(lines, 1)] == expected


def test_status_shows_acts_with_operator_and_reason() -> None:
    """Stopped queues, cordoned nodes and held applications are listed, the latest first."""
    facts = Facts(GetServerResponse(version="1"), GetHealthResponse())
    add_queues(facts, [("p", Queue(path="root.a", is_leaf=True, state="Stopped", stop=MARK))])
    add_nodes(facts, [("p", Node(node_id=f"n{n}", cordon=MARK, reservation_count=n)) for n in range(6)])
    add_nodes(facts, [("p", Node(node_id="off"))])
    add_applications(facts, [("p", Application(application_id="job", hold=MARK, change=MARK))])
    shown = text_of(facts)
    assert shown["stopped"].startswith("root.a by ann, ")
    assert shown["stopped"].endswith("d ago: disk\\n")
    assert shown["nodes"].startswith("7 nodes; 5 reserved; n0 cordoned by ann, ")
    assert shown["nodes"].endswith("; 4 more")
    drained = Node(node_id="n", cordon=MARK, drain=NodeDrain(start_time=1, deadline=2, allocations=3))
    assert node_text(drained).endswith("d ago: disk\n, drain done")
    assert shown["held"].startswith("job by ann, ")
    assert [one.what for one in facts.changes[-2:]] == ["application job held", "application job changed"]
    assert facts.needs_look == []


def test_the_lists_of_status_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many rows the first are read, and the screen says so."""
    monkeypatch.setattr(gathering, "MOST", 3)
    for number, is_cut in ((3, False), (4, True)):
        facts = Facts(GetServerResponse(), GetHealthResponse())
        rows = bounded(facts, iter([("p", Node(node_id=str(n), schedulable=True)) for n in range(number)]))
        add_nodes(facts, rows)
        assert (facts.nodes, facts.is_cut, "note" in text_of(facts)) == (3, is_cut, is_cut)

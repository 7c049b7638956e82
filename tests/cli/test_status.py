"""`licorne status`: the whole server on one screen."""

from typing import Any

import pytest

from licorne.v1.state_pb2 import Application, Budget, GetServerResponse, Node, NodeDrain, OperatorMark, Queue
from licorne_cli.failures import NEEDS_LOOK
from licorne_cli.nouns import status
from licorne_cli.nouns import status_facts as gathering
from licorne_cli.nouns.status import Line, laid_out, lines_of, node_text
from licorne_cli.nouns.status_facts import Facts, add_applications, add_nodes, add_queues, bounded, is_over
from support.peers.town import Town

MARK = OperatorMark(by="ann", time=1_700_000_000 * 10**9, message="disk\n")


def text_of(facts: Facts) -> dict[str, str]:
    """The text of each line."""
    return {line.name: line.text for line in lines_of(facts)}


async def test_what_is_well_and_what_needs_a_look(town: Town) -> None:
    """Exit code 0 for a server that is well, and 6 with the name of what is not."""
    result = await town.shell("status", "-o", "json")
    assert (result.code, result.err) == (0, "")
    assert (result.json["needsLook"], result.json["serving"], result.json["nodes"]) == ([], True, 3)
    assert result.json["reasons"]["asks"] == 2
    shown = await town.shell("status")
    assert "2 of 2 connected" in shown.out
    assert "2 QUEUE_MAX_EXCEEDED in 1 queue (first: root.prod at its maximum)" in shown.out
    assert "configuration 1 of blue in force" in shown.out
    await town.green.close()
    result = await town.shell("status", "-o", "json")
    assert (result.code, result.json["needsLook"]) == (NEEDS_LOOK, ["rms"])
    shown = await town.shell("status")
    [line] = [row for row in shown.rows if "rms" in row[:2]]
    assert (line[0], shown.code) == ("!", NEEDS_LOOK)
    assert "green has not been for" in shown.out


def test_a_terminal_breaks_lines_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal a line goes on below its first word, with the command that shows more."""
    lines = [Line("rms", "2 of 2 connected", "licorne rms"), Line("starving", "root.etl")]
    wide = ["   rms       2 of 2 connected (licorne rms)", "!  starving  root.etl"]
    narrow = [wide[0].removesuffix(" (licorne rms)"), f"{'':13}(licorne rms)", wide[1]]
    monkeypatch.setattr(status, "terminal_width", lambda: 30)
    for terminal, expected in ((False, wide), (True, narrow)):
        monkeypatch.setattr(status, "is_terminal", lambda _, terminal=terminal: terminal)
        assert ["".join(text for text, _ in row) for row in laid_out(lines, ["starving"])] == expected


def test_what_operators_did_is_shown_with_who_and_why() -> None:
    """Stopped queues, cordoned nodes and held applications, the latest as changes; names are escaped."""
    facts = Facts(GetServerResponse(version="1"), serving=True)
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


def test_a_leaf_below_its_guarantee_starves_while_asks_wait() -> None:
    """What waits has to be of a type of which it has less than guaranteed."""
    queue: dict[str, Any] = {"is_leaf": True, "guaranteed": {"vcore": 3000}, "allocated": {"vcore": 1500}}
    facts = Facts(GetServerResponse(), serving=True)
    add_queues(
        facts,
        [
            ("p", Queue(path="root.etl", pending={"vcore": 1}, **queue)),
            ("p", Queue(path="root.idle", **queue)),
            ("p", Queue(path="root.other", pending={"memory": 1}, **queue)),
        ],
    )
    assert text_of(facts)["starving"] == "root.etl (vcore 1.5 of 3)"
    assert facts.needs_look == ["starving"]


def test_a_budget_is_over_if_more_is_charged_than_there_is() -> None:
    """An RM that uses more than its slice, while the others use less than theirs, is no reason to look."""
    within, over, of_rm = Budget(unassigned={"gpu": 0}), Budget(unassigned={"gpu": -1}), Budget()
    of_rm.holdings.add(rm_id="a", overdraft={"gpu": 1})
    assert [is_over(one) for one in (within, over, of_rm)] == [False, True, False]


def test_no_list_is_longer_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many rows the first are read, and the screen says so."""
    monkeypatch.setattr(gathering, "MOST", 3)
    for number, is_cut in ((3, False), (4, True)):
        facts = Facts(GetServerResponse(), serving=True)
        rows = bounded(facts, iter([("p", Node(node_id=str(n), schedulable=True)) for n in range(number)]))
        add_nodes(facts, rows)
        assert (facts.nodes, facts.is_cut, "note" in text_of(facts)) == (3, is_cut, is_cut)

"""Output in human units, in tables and in JSON."""

import json
import re

import pytest
from google.protobuf import json_format

from licorne.v1.state_pb2 import ListQueuesResponse, Queue
from licorne_cli.output.text import (
    human_amount,
    human_resources,
    human_text,
    print_json,
    print_table,
    printable,
    say,
    to_plain,
)


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("vcore", 0, "0"),
        ("vcore", 250, "250m"),
        ("vcore", 2000, "2"),
        ("vcore", 15_300, "15.3"),
        ("vcore", -500, "-500m"),
        ("memory", 0, "0"),
        ("memory", 1023, "1023"),
        ("memory", 1536 * 1024**2, "1.5Gi"),
        ("memory", 1024**3 - 1, "1Gi"),
        ("memory", -(2**20), "-1Mi"),
        ("memory", 2**63 - 1, "8Ei"),
        ("hugepages-2Mi", 4 * 1024**2, "4Mi"),
        ("ephemeral-storage", 10 * 1024**3, "10Gi"),
        ("nvidia.com/gpu", 2048, "2048"),
    ],
)
def test_amounts_have_human_units(name: str, amount: int, text: str) -> None:
    """Amounts are printed as cores, binary units of bytes, and plain counts."""
    assert text == human_amount(name, amount)


def test_resources_are_sorted_by_name() -> None:
    """Resources are sorted by name, and an empty amount is a dash."""
    assert human_resources({"vcore": 2000, "memory": 1024}) == "memory=1Ki,vcore=2"
    assert human_resources({}) == "-"


def test_control_characters_of_names_are_escaped() -> None:
    """Control characters in a name are displayed, and have no effect on the terminal."""
    assert printable("a\x1b[31m\n") == "a\\x1b[31m\\n"
    assert printable("Größe") == "Größe"


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns begin below their headers without trailing blanks; an empty table has its headers only."""
    print_table(("NAME", "N"), [("a", "1"), ("long", "22"), ("b", "")])
    assert capsys.readouterr().out == "NAME  N\na     1\nlong  22\nb\n"
    print_table(("NAME", "N"), [])
    assert capsys.readouterr().out == "NAME  N\n"


def test_a_terminal_gets_the_same_text_with_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """States are coloured, brackets are no markup, and nothing is cut."""
    monkeypatch.setattr("licorne_cli.output.text.is_terminal", lambda _: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.delenv("NO_COLOR", raising=False)
    long = "x" * 100
    print_table(("QUEUE", "STATE", "WHY"), [("[red]default", "Active", long)])
    out = capsys.readouterr().out
    assert "\x1b[32mActive" in out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert plain == f"QUEUE         STATE   WHY\n[red]default  Active  {long}\n"
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(("QUEUE", "STATE"), [("[red]default", "Active")])
    assert "\x1b[32m" not in capsys.readouterr().out


def test_numbers_in_lists_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal too narrow for a table, a number that begins an entry has its column's name."""
    monkeypatch.setattr("licorne_cli.output.text.is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    long = "word " * 8
    print_table(("REVISION", "SOURCE", "COMMENT"), [("3", "operator", long)], heads=2)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[:2] == ["revision 3  operator", "  comment word word word word"]
    print_table(("NODES", "OUT BECAUSE"), [("11,996", long)])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[0] == "nodes 11,996"
    print_table(("NODE", "STATE", "COMMENT"), [("n3", "up", long)])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[0] == "n3"
    rows = [("ip-10-0-101-17.eu-central-1", "vcore=4"), ("ip-10-0-101-18.eu-central-1", "vcore=4")]
    print_table(("NODE", "FREE"), rows)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[1:] == ["ip-10-0-10…-central-1  vcore=4"] * 2


def test_json_has_raw_numbers_under_proto_json_names(capsys: pytest.CaptureFixture[str]) -> None:
    """64-bit numbers are JSON numbers, empty fields are included, and proto JSON parsers accept it."""
    message = ListQueuesResponse(
        queues=[Queue(path="root", is_leaf=False, allocated={"memory": 2**60, "vcore": 1})]
    )
    print_json(to_plain(message))
    printed = capsys.readouterr().out
    [queue] = json.loads(printed)["queues"]
    assert queue["allocated"] == {"memory": 2**60, "vcore": 1}
    assert False is queue["isLeaf"]
    assert queue["guaranteed"] == {}
    assert queue["maxApplications"] == 0
    assert message == json_format.Parse(printed, ListQueuesResponse())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("over by map[memory:8589934592 vcore:2000]", "over by memory=8Gi,vcore=2"),
        ("by map[example.com/gpu:1], map[vcore:-5]", "by example.com/gpu=1, vcore=-5m"),
        ("queue root.map[x] and map[]", "queue root.map[x] and map[]"),
        ("bad\x1bname", "bad\\x1bname"),
    ],
)
def test_sentences_have_human_amounts(text: str, shown: str) -> None:
    """Amounts in a sentence of the core are printed in the units of tables."""
    assert human_text(text) == shown


def test_messages_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """A name in a message has no effect on the terminal, and adds no line."""
    say("no RM \0a\x1b[2J\r\u202eb\nDid you mean c?")
    assert capsys.readouterr().err == "no RM \\x00a\\x1b[2J\\r\\u202eb\nDid you mean c?\n"

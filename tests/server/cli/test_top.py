"""`licorne top` against a running server."""

import re
from argparse import Namespace

import pytest
from rich.console import Console

from licorne.v1.state_pb2 import Queue
from licorne_server.cli import top
from licorne_server.cli.board import Board, Snapshot
from support.town import Town


async def test_without_a_terminal_it_is_a_line(town: Town) -> None:
    """How full each partition is and what there is in all of them, without control codes."""
    result = await town.shell("top", "--count", "1")
    assert (result.code, result.err) == (0, "")
    [line] = result.out.splitlines()
    seconds, rest = re.split(r" s  ", line)
    assert seconds.strip().isdecimal()
    assert rest == (
        "[blue]default  20%  [green]default   0%  3 nodes, 4 allocations, 2 asks waiting"
    )


async def test_looks_are_as_many_as_wanted(town: Town) -> None:
    """As JSON every look is an object of its own, with the partitions as the server has them."""
    result = await town.shell("top", "--count", "3", "--interval", "0", "-o", "json")
    looks = re.findall(r"^\{.*?^\}", result.out, re.MULTILINE | re.DOTALL)
    assert len(looks) == 3
    assert all('"name": "[green]default"' in look for look in looks)


@pytest.mark.parametrize("name", ["default", "[blue]default"])
async def test_one_partition(town: Town, name: str) -> None:
    """A partition may be named, with its RM or without."""
    result = await town.shell("top", "--count", "1", "--partition", name)
    assert "[blue]default  20%  2 nodes" in result.out
    assert "green" not in result.out


@pytest.mark.parametrize("name", ["fault", "lue]default", "]default", "[blue]fault"])
async def test_a_part_of_a_name_is_no_name(town: Town, name: str) -> None:
    """A partition is found under its whole name only."""
    result = await town.shell("top", "--count", "1", "--partition", name)
    assert (result.code, result.out) == (3, "")
    assert result.err == f"licorne: partition {name} not found\n"


def test_an_interrupt_is_a_good_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has seen enough and says so gets the exit code of success."""

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(top, "with_state", interrupted)
    assert top.run(Namespace()) == 0


def test_a_terminal_shows_bars() -> None:
    """Each queue has a bar up to its maximum, or the cluster's, and a mark at its guarantee."""
    console = Console(force_terminal=True, width=120, record=True, color_system=None)
    root = Queue(path="root", max={"vcore": 8000}, allocated={"vcore": 4000}, is_managed=True)
    leaf = Queue(path="root.a", guaranteed={"vcore": 2000}, max={"vcore": 4000}, applications=3)
    with Board(console) as board:
        board.show(Snapshot(seconds=1.25, queues=[("[rm]default", [root, leaf])], totals="so much"))
    lines = console.export_text().splitlines()
    assert any("[rm]default" in line and "█" * 16 + "·" * 16 in line for line in lines)
    assert any(line.startswith("  a ") and "·" * 16 + "│" + "·" * 15 in line for line in lines)
    assert any("1.2 s  so much" in line for line in lines)


def test_a_terminal_shows_what_is_being_preempted() -> None:
    """In a column of its own, which is there while something is."""
    console = Console(force_terminal=True, width=140, record=True, color_system=None)
    root = Queue(path="root", max={"vcore": 8000}, preempting={"vcore": 1500})
    leaf = Queue(path="root.a", max={"vcore": 8000})

    def shown(queues: list[Queue]) -> list[str]:
        with Board(console) as board:
            board.show(Snapshot(seconds=1.0, queues=[("rm", queues)], totals=""))
        return console.export_text().splitlines()

    with_victims = shown([root, leaf])
    assert any(line.rstrip().endswith("PREEMPTING") for line in with_victims)
    assert any(line.startswith("rm ") and line.split()[-1] == "1.5" for line in with_victims)
    assert not any("PREEMPTING" in line for line in shown([leaf]))

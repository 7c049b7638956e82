"""`licorne top` against a running server."""

import asyncio
import re
from argparse import Namespace

import pytest

from licorne_cli.screen import top
from support.patience import PATIENCE
from support.peers.town import Town


async def test_top_without_a_terminal_prints_a_line(town: Town) -> None:
    """The line has the usage of each partition and the totals, without control codes."""
    result = await town.shell("top", "--count", "1")
    assert (result.code, result.err) == (0, "")
    [line] = result.out.splitlines()
    seconds, rest = re.split(r" s  ", line)
    assert seconds.strip().isdecimal()
    assert rest == ("[blue]default  20%  [green]default   0%  3 nodes, 4 allocations, 2 asks waiting")


async def test_top_prints_the_requested_number_of_snapshots(town: Town) -> None:
    """In JSON every snapshot is an object with the partitions of the server."""
    result = await town.shell("top", "--count", "3", "--interval", "0", "-o", "json")
    looks = re.findall(r"^\{.*?^\}", result.out, re.MULTILINE | re.DOTALL)
    assert len(looks) == 3
    assert all('"name": "[green]default"' in look for look in looks)


@pytest.mark.parametrize("name", ["default", "[blue]default"])
async def test_top_shows_one_partition(town: Town, name: str) -> None:
    """A partition may be selected by a name with its RM or without it."""
    result = await town.shell("top", "--count", "1", "--partition", name)
    assert "[blue]default  20%  2 nodes" in result.out
    assert "green" not in result.out


@pytest.mark.parametrize("name", ["fault", "lue]default", "]default", "[blue]fault"])
async def test_a_partition_is_selected_by_its_full_name_only(town: Town, name: str) -> None:
    """A partition is found under its full name only."""
    result = await town.shell("top", "--count", "1", "--partition", name)
    assert (result.code, result.out) == (3, "")
    known = "[blue]default, [green]default"
    assert result.err == f'licorne: no partition "{name}"; there are: {known}\n'


async def test_top_shows_the_partitions_of_an_rm(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option or a variable selects the RM, and partitions of others are left out."""
    named = await town.shell("top", "--once", "--rm", "green")
    monkeypatch.setenv("LICORNE_RM", "green")
    for result in (named, await town.shell("top", "--once")):
        assert "[green]default" in result.out
        assert "blue" not in result.out
    shown = await town.shell("top", "--once", "--partition", "default", "-o", "json")
    assert [partition["name"] for partition in shown.json["partitions"]] == ["[green]default"]


def test_an_interrupt_ends_top_with_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt ends the command with exit code 0."""

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(top, "with_channel", interrupted)
    assert top.run(Namespace()) == 0


async def test_once_equals_a_count_of_one(town: Town) -> None:
    """`--once` is `--count 1`, and excludes `--count`."""
    result = await town.shell("top", "--once", "-o", "json")
    assert [item["name"] for item in result.json["partitions"]] == [
        "[blue]default",
        "[green]default",
    ]
    assert len((await town.shell("top", "--once")).out.splitlines()) == 1
    with pytest.raises(SystemExit) as refused:
        await town.shell("top", "--once", "--count", "2")
    assert refused.value.code == 1


async def test_the_line_marks_a_lost_rm(town: Town) -> None:
    """The partition of a lost RM has its last figures, and a mark."""
    await town.green.close()

    async def lost() -> bool:
        return "[green]default   0% (RM lost)" in (await town.shell("top", "--once")).out

    async with asyncio.timeout(PATIENCE):
        # Whether a stream is lost can only be queried, because this process gets no event of it.
        while not await lost():  # noqa: ASYNC110
            await asyncio.sleep(0.05)

"""Every list in every format: sorted, filtered, without headers, and watched."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import yaml

from support.patience import PATIENCE
from support.peers.town import Town, interrupted

LISTS = ("queues", "apps", "nodes", "users", "rms", "events")
NO_LISTS = ("top --once", "log-level", "config history blue")


@pytest.mark.parametrize("command", LISTS + NO_LISTS)
async def test_yaml_equals_json(town: Town, command: str) -> None:
    """YAML and JSON have the same content, also for commands that print no list."""
    words = command.split()
    as_json = (await town.shell(*words, "-o", "json")).json
    assert as_json
    as_yaml = yaml.safe_load((await town.shell(*words, "-o", "yaml")).out)
    assert as_yaml == as_json


class Watching:
    """A running process of a command that watches."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Wrap a running process."""
        self._process = process

    async def out(self) -> list[str]:
        """The words of the next line on stdout."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stdout.readline()).decode().split()

    async def err(self) -> str:
        """The next line on stderr."""
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stderr.readline()).decode()


@asynccontextmanager
async def watching(town: Town, *arguments: str) -> AsyncIterator[Watching]:
    """The command with `-w`, which exits with 130 when it is interrupted at the end."""
    async with interrupted(*arguments, "-w", "--target", town.shell.target) as process:
        yield Watching(process)


async def test_a_watch_prints_changed_rows(town: Town) -> None:
    """All rows are printed once with their time, then new and changed rows; removed rows are on stderr."""
    async with watching(town, "nodes", "--rm", "green") as nodes:
        assert (await nodes.out())[:2] == ["TIME", "NODE"]
        moment, *first = (await nodes.out())[:3]
        assert re.fullmatch(r"\d\d:\d\d:\d\dZ", moment)
        assert first == ["meadow-1", "yes"]
        await town.green.add_nodes(1, prefix="hill")
        assert (await nodes.out())[1:3] == ["hill-1", "yes"]
        await town.green.client.drain_node("hill-1")
        assert (await nodes.out())[1:3] == ["hill-1", "no"]
        await town.green.client.remove_node("hill-1")
        assert await nodes.err() == "node/hill-1 is gone\n"


async def test_a_watch_marks_the_kind_of_change(town: Town) -> None:
    """With the option each row, name or document is marked as added, modified or deleted."""
    arguments = ("nodes", "--rm", "green", "-o", "name", "--output-watch-events")
    async with watching(town, *arguments) as nodes:
        assert await nodes.out() == ["ADDED", "node/meadow-1"]
        await town.green.client.drain_node("meadow-1")
        assert await nodes.out() == ["MODIFIED", "node/meadow-1"]
        await town.green.client.remove_node("meadow-1")
        assert await nodes.out() == ["DELETED", "node/meadow-1"]

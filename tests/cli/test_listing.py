"""Every list in every form: sorted, filtered, without headers, and as it changes."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import yaml

from support.patience import PATIENCE
from support.peers.town import Town, interrupted

LISTS = ("queues", "apps", "nodes", "users", "rms", "events")


@pytest.mark.parametrize("command", LISTS)
async def test_names_alone(town: Town, command: str) -> None:
    """`-o name` prints a kind and a name a line, and nothing else."""
    result = await town.shell(command, "-o", "name")
    kind = command.removesuffix("s")
    assert result.code == 0
    assert result.out
    assert all(line.startswith(f"{kind}/") for line in result.out.splitlines())


@pytest.mark.parametrize("command", LISTS)
async def test_yaml_is_the_same_as_json(town: Town, command: str) -> None:
    """YAML and JSON have the same content."""
    as_json = (await town.shell(command, "-o", "json")).json
    assert as_json
    as_yaml = yaml.safe_load((await town.shell(command, "-o", "yaml")).out)
    assert as_yaml == as_json


@pytest.mark.parametrize("command", LISTS)
async def test_wide_tables_have_more_columns(town: Town, command: str) -> None:
    """A wide table includes the columns of the table."""
    table = (await town.shell(command)).out.splitlines()
    wide = (await town.shell(command, "-o", "wide")).out.splitlines()
    assert len(wide) == len(table)
    assert set(table[0].split()) <= set(wide[0].split())
    assert wide[0] != table[0] or command == "events"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("nodes", "-l", "zone=nowhere"), "nodes"),
        (("apps", "--user", "nobody"), "apps"),
        (("queues", "--state", "draining"), "queues"),
        (("users", "--groups"), "groups"),
        (("events", "--user", "nobody"), "events"),
    ],
)
async def test_where_nothing_is_found_that_is_said(town: Town, command: Sequence[str], kind: str) -> None:
    """The message is on stderr, so that it is not mistaken for a row; programs get an empty list."""
    result = await town.shell(*command)
    assert (result.code, len(result.rows)) == (0, 1)
    assert result.err.splitlines()[-1] == f"no {kind} found"
    names = await town.shell(*command, "-o", "name")
    assert (names.out, names.err.splitlines()[-1]) == ("", f"no {kind} found")
    assert "found" not in (await town.shell(*command, "-o", "json")).err


async def test_without_headers(town: Town) -> None:
    """A script gets the rows alone."""
    whole = await town.shell("nodes")
    rows = await town.shell("nodes", "--no-headers")
    assert rows.rows == whole.rows[1:]


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        (("--sort-by", "allocated"), ["idle", "shop"]),
        (("--sort-by", "allocated", "--reverse"), ["shop", "idle"]),
        (("--sort-by", "allocated.memory", "--reverse"), ["shop", "idle"]),
        (("--sort-by", "wanted.nosuch"), ["idle", "shop"]),
        (("--sort-by", "user"), ["shop", "idle"]),
        (("--sort-by", "PENDING"), ["idle", "shop"]),
        (("--reverse",), ["shop", "idle"]),
    ],
)
async def test_sorted(town: Town, arguments: Sequence[str], order: list[str]) -> None:
    """By any column, resources by one of them, and the other way round; in every form."""
    table = await town.shell("apps", *arguments)
    assert [row[0] for row in table.rows[1:]] == order
    names = await town.shell("apps", *arguments, "-o", "name")
    assert names.out.split() == [f"app/{name}" for name in order]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("apps", "--user", "ann"), ["app/shop"]),
        (("apps", "--user", "user/bob"), ["app/idle"]),
        (("apps", "--user", "nobody"), []),
        (("apps", "--group", "nobody"), []),
        (("apps", "--state", "running"), ["app/shop"]),
        (("apps", "--state", "Running"), ["app/shop"]),
        (("apps", "--state", "accepted"), []),
        (("apps", "--state", "failed"), []),
        (("apps", "--state", "all"), ["app/idle", "app/shop"]),
        (("apps", "--queue", "queue/root.dev"), ["app/idle"]),
        (("apps", "--reason", "queue_max_exceeded"), ["app/shop"]),
        (("apps", "--reason", "no_node_fits"), []),
        (("queues", "--leaves"), ["queue/root.dev", "queue/root.prod"]),
        (("queues", "--leaves", "--pending"), ["queue/root.prod"]),
        (("queues", "--state", "Draining"), []),
        (("queues", "queue/root.dev"), ["queue/root.dev"]),
        (("nodes", "--schedulable", "no"), []),
        (("nodes", "--schedulable", "yes"), ["node/node-1", "node/node-2"]),
        (("nodes", "--reserved"), []),
        (("nodes", "node/node-2"), ["node/node-2"]),
        (("nodes", "-l", "zone"), []),
        (("nodes", "-l", "!zone"), ["node/node-1", "node/node-2"]),
        (("nodes", "-l", "zone!=a"), ["node/node-1", "node/node-2"]),
        (("nodes", "--rm", "green"), ["node/meadow-1"]),
        (("nodes", "--rm", "green", "--partition", "default"), ["node/meadow-1"]),
        (("users", "user/ann"), ["user/ann"]),
    ],
    ids=" ".join,
)
async def test_filters(town: Town, arguments: Sequence[str], names: list[str]) -> None:
    """Rows that fail any of the filters are left out."""
    result = await town.shell(*arguments, "-o", "name")
    assert (result.code, result.out.split()) == (0, names)


async def test_nodes_by_their_attributes(town: Town) -> None:
    """A selector supports equality, inequality, presence and absence, all of which have to hold."""
    await town.green.add_nodes(1, prefix="a", attributes={"zone": "a", "spot": ""})
    await town.green.add_nodes(1, prefix="b", attributes={"zone": "b"})

    async def chosen(selector: str) -> list[str]:
        names = await town.shell("nodes", "--rm", "green", "-o", "name", "-l", selector)
        return [name.removeprefix("node/") for name in names.out.split()]

    assert await chosen("zone=a") == await chosen("zone==a,spot") == ["a-1"]
    assert await chosen("zone,!spot") == await chosen("zone!=a,zone") == ["b-1"]
    assert await chosen("zone=a,zone=b") == []


async def test_the_reason_is_shown_that_was_looked_for(town: Town) -> None:
    """A waiting application has the reason in its row, and in data under a name of its own."""
    table = await town.shell("apps", "--reason", "exceeded")
    assert "REASON" in table.rows[0]
    assert "QUEUE_MAX_EXCEEDED: " in table.out
    [app] = (await town.shell("apps", "--reason", "exceeded", "-o", "json")).json["applications"]
    assert app["reason"].startswith("QUEUE_MAX_EXCEEDED: ")
    assert app["rejectedMessage"] == ""
    assert "REASON" not in (await town.shell("apps")).rows[0]


class Watching:
    """A command that runs on, in a process of its own."""

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
    """The command with `-w`; interrupted at the end it exits with 130."""
    async with interrupted(*arguments, "-w", "--target", town.shell.target) as process:
        yield Watching(process)


async def test_watching_prints_what_changes(town: Town) -> None:
    """All rows are printed once with their time, then new and changed rows; removed ones on stderr."""
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


async def test_watching_says_what_happened(town: Town) -> None:
    """For programs each row, name or document has a field for its addition, change or removal."""
    arguments = ("nodes", "--rm", "green", "-o", "name", "--output-watch-events")
    async with watching(town, *arguments) as nodes:
        assert await nodes.out() == ["ADDED", "node/meadow-1"]
        await town.green.client.drain_node("meadow-1")
        assert await nodes.out() == ["MODIFIED", "node/meadow-1"]
        await town.green.client.remove_node("meadow-1")
        assert await nodes.out() == ["DELETED", "node/meadow-1"]

"""Answers that are encoded in slices, and once for concurrent callers."""

import asyncio
import gzip
import json
import select
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from licorne_core.messages.commands import NodeAction
from licorne_core.values.errors import NotFound
from licorne_server.http import metrics, scrape, stream
from licorne_server.http.json_apps import applications
from licorne_server.http.json_apps import nodes as listed_nodes
from licorne_server.http.stream import (
    CHUNK,
    JsonObject,
    Rows,
    Together,
    accepts_gzip,
    fragments,
    sliced,
    text_of,
)
from licorne_server.process.fair import TimeSlices
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, remove_apps
from support.patience import PATIENCE, loop_turns
from support.server.http_site import Site

CONFIG = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]"
ACTIVE = "/ws/v1/partition/default/applications/active"


def idle() -> bool:
    """A scheduler that has nothing to do."""
    return False


def numbered(count: int) -> Rows:
    """This number of small rows."""
    return Rows(range(count), lambda n: {"n": n})


def joined(value: JsonObject | Rows) -> Any:
    """The value as parsed from its JSON."""
    return json.loads("".join(fragments(value)))


def test_lists_may_be_anywhere_in_an_answer() -> None:
    """Lists of rows may be inside rows, may be empty, and may be the whole answer."""
    inner = Rows([1, 2], lambda n: {"of": n, "rows": numbered(n)})

    assert joined(numbered(0)) == []
    assert joined({}) == {}
    assert joined({"rows": numbered(0)}) == {"rows": []}
    assert joined({"a": "x", "rows": inner, "b": None, "more": numbered(1)}) == {
        "a": "x",
        "b": None,
        "rows": [{"of": 1, "rows": [{"n": 0}]}, {"of": 2, "rows": [{"n": 0}, {"n": 1}]}],
        "more": [{"n": 0}],
    }


@pytest.mark.parametrize("text", ["", "a", 'a"\\\n\x00é𝄞' * 20_000])
def test_long_texts_are_sent_in_parts(text: str) -> None:
    """The parts together are the JSON of the text, and each has a bounded length."""
    pieces = list(fragments(text_of(text)))
    assert json.loads("".join(pieces)) == text
    longest = len(json.dumps("𝄞")) * CHUNK
    assert max(map(len, pieces)) <= longest


def test_removed_rows_are_left_out() -> None:
    """An item that was removed after the list was made leaves no trace, wherever it was."""

    def row(n: int) -> JsonObject:
        if n % 2 == 0:
            raise NotFound(f"{n} not found")
        return {"n": n}

    assert joined(Rows([0, 1, 2, 3, 4], row)) == [{"n": 1}, {"n": 3}]
    assert joined(Rows([0, 2], row)) == []


def test_empty_rows_are_left_out() -> None:
    """Rows without content leave no trace, and each is a step of its own."""
    rows = Rows(range(9), lambda n: {"n": n} if n == 5 else None)

    assert joined(rows) == [{"n": 5}]
    assert len(list(fragments(rows))) >= 9


def test_unusual_texts_are_valid_json() -> None:
    """Whatever names an RM uses, the answer is ASCII that parses to them."""
    strange = {"a": "\ud800", "b": '"</script>\0', "ü": "\u2028"}

    text = "".join(fragments(dict(strange)))

    assert text.isascii()
    assert json.loads(text) == strange


async def test_other_tasks_run_during_a_long_list() -> None:
    """While a long list is encoded the loop runs many times."""
    async with loop_turns() as turns:
        chunks = sliced(fragments(numbered(50_000)), TimeSlices(idle), "host")
        body = b"".join([chunk async for chunk in chunks])
    assert len(json.loads(body)) == 50_000
    assert turns() >= 10


async def test_answers_are_encoded_one_at_a_time() -> None:
    """While another reader has its time slice an answer waits."""
    time_slices = TimeSlices(idle)
    body = sliced(fragments(numbered(3)), time_slices, "host")
    async with time_slices.slice("other"):
        waiting = asyncio.ensure_future(anext(body))
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == b'[{"n":0},{"n":1},{"n":2}]'


async def test_an_application_that_ends_during_the_list_is_left_out(site: Site) -> None:
    """The row of a removed application is left out, and the list is valid."""
    site.driver.do(register(CONFIG), apps(*[app(f"app-{n}", "root.a") for n in range(3)]))
    views = site.driver.views
    rows = applications(views, views.resolve("default"), state="active")
    site.driver.do(remove_apps("app-1"))

    assert [shown["applicationID"] for shown in joined(rows)] == ["app-0", "app-2"]


async def test_an_application_that_changes_its_state_during_the_list_is_left_out(site: Site) -> None:
    """An application whose state changes before its turn is not listed under the old state."""
    driver = site.driver
    driver.do(
        register(CONFIG),
        apps(app("app-1", "root.a"), app("app-2", "root.a"), app("app-3", "root.x")),
    )
    partition = driver.views.resolve("default")
    active = applications(driver.views, partition, state="active")
    rejected = applications(driver.views, partition, state="rejected")
    driver.do(remove_apps("app-1"), apps(app("app-1", "root.x"), app("app-3", "root.a")))

    assert [shown["applicationID"] for shown in joined(active)] == ["app-2"]
    assert joined(rejected) == []


async def test_a_node_that_is_removed_during_the_list_is_left_out(site: Site) -> None:
    """A node that is removed before its turn is left out, and so is an ended allocation."""
    driver = site.driver
    driver.do(
        register(CONFIG),
        nodes(node("n1", vcore=10), node("n2", vcore=10), node("n3", vcore=10)),
        apps(app("app-1", "root.a")),
        asks(ask("app-1", "k1", vcore=10)),
    )
    pieces = fragments(listed_nodes(driver.views, driver.views.resolve("default")))
    begin = [next(pieces), next(pieces)]
    driver.do(nodes(node("n2", NodeAction.DECOMISSION)), remove_apps("app-1"))

    shown = json.loads("".join([*begin, *pieces]))

    assert [row["nodeID"] for row in shown] == ["n1", "n3"]
    assert [row["allocations"] for row in shown] == [[], []]


async def test_long_answers_are_compressed(site: Site) -> None:
    """From 1400 bytes on, an answer is compressed by gzip for clients that accept it."""
    site.driver.do(register(CONFIG), apps(*[app(f"app-{n}", "root.a") for n in range(40)]))

    _, plain_headers, plain = await site.ask(ACTIVE)
    _, headers, body = await site.ask(ACTIVE, Accept_Encoding="deflate, gzip;q=0.5")
    _, short_headers, _ = await site.ask("/ws/v1/partitions", Accept_Encoding="gzip")

    assert "Content-Encoding" not in plain_headers
    assert headers["Content-Encoding"] == "gzip"
    assert len(body) < len(plain) / 4
    assert gzip.decompress(body) == plain
    assert "Accept-Encoding" in headers["Vary"]
    assert "Content-Encoding" not in short_headers


async def test_metrics_are_compressed_once(site: Site) -> None:
    """The answer to a scraper that accepts gzip is plain text after one decompression."""
    _, headers, body = await site.ask("/metrics", Accept_Encoding="gzip")

    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body).startswith(b"# HELP")


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("gzip", True),
        ("GZIP;q=0.1", True),
        ("br, gzip", True),
        ("*", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
        ("*;q=0, gzip", True),
        ("*, gzip;q=0", False),
        ("gzipped", False),
    ],
)
def test_the_header_that_accepts_gzip(header: str, taken: bool) -> None:
    """The header accepts gzip by name or by a star, unless with a weight of zero."""
    assert accepts_gzip(header) is taken


@pytest.mark.slow
async def test_a_reader_that_stalls_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that requests a lot and reads nothing loses the connection; the others are served."""
    monkeypatch.setattr(stream, "STALL_SECONDS", 0.05)
    site.driver.do(register(CONFIG), apps(app("app-1", "root.a")))
    site.driver.send(asks(*[ask("app-1", f"k{n}", vcore=1) for n in range(40_000)]))
    host, port = site.address.removeprefix("http://").split(":")
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(reader, (host, int(port)))
        await loop.sock_sendall(reader, f"GET {ACTIVE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        hangup = select.poll()
        hangup.register(reader, 0)
        assert await asyncio.to_thread(hangup.poll, 20_000)
    assert (await site.get("/ws/v1/partitions"))[0]["applications"]["total"] == 1


LINE = 300
"""The number of slices that one reader waits for."""


async def line_left(site: Site, ask: Callable[[], Awaitable[Any]]) -> int:
    """The number of slices for which a busy reader of the same host waits after an answer."""
    left = LINE

    async def wait() -> None:
        nonlocal left
        async with site.time_slices.slice("127.0.0.1"):
            left -= 1

    line = [asyncio.create_task(wait()) for _ in range(LINE)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await ask()
        found = left
        await asyncio.gather(*line)
    return found


@pytest.mark.parametrize("path", ["/metrics", "/ui/api/partition/default/heat"])
async def test_shared_answers_do_not_wait_for_one_reader(site: Site, path: str) -> None:
    """A reader of very long answers does not delay answers that are computed once for all."""
    site.driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=1)))
    assert await line_left(site, lambda: site.ask(path)) > 0


async def test_concurrent_scrapers_get_the_same_answer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many scrape during the computation of an answer, there is one answer."""
    monkeypatch.setattr(scrape, "FRESH_SECONDS", 0.0)
    made = waiting = 0
    real, real_make, all_wait = metrics.gather, Together.get, asyncio.Event()

    def gather(*args: Any, **options: Any) -> Any:
        nonlocal made
        made += 1
        return real(*args, **options)

    async def make(together: Together[Any], *args: Any) -> Any:
        nonlocal waiting
        waiting += 1
        if waiting == len(asked):
            all_wait.set()
        return await real_make(together, *args)

    monkeypatch.setattr(scrape, "gather", gather)
    monkeypatch.setattr(Together, "get", make)
    async with site.time_slices.slice("somebody"):
        asked = [asyncio.create_task(site.ask("/metrics")) for _ in range(5)]
        async with asyncio.timeout(PATIENCE):
            await all_wait.wait()
    bodies = {body for _, _, body in await asyncio.gather(*asked)}
    assert (made, len(bodies)) == (1, 1)


async def test_a_failure_is_shared_and_not_cached() -> None:
    """Concurrent callers get one failure, and the next call computes again."""
    together = Together[int]()
    tries = 0

    async def begin() -> tuple[int, float]:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0)
        if tries == 1:
            raise ValueError("the first")
        return tries, 0.0

    both = await asyncio.gather(together.get("a", begin), together.get("a", begin), return_exceptions=True)
    assert [str(error) for error in both] == ["the first", "the first"]
    assert await together.get("a", begin) == 2


async def test_a_caller_that_leaves_does_not_cancel_a_shared_answer() -> None:
    """A computation is cancelled only when no caller waits, and started again for a later one."""
    together = Together[str]()
    gate, begun, ended = asyncio.Event(), 0, 0

    async def begin() -> tuple[str, float]:
        nonlocal begun, ended
        begun += 1
        try:
            await gate.wait()
        finally:
            ended += 1
        return "made", 0.0

    first, second = (asyncio.create_task(together.get("a", begin)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    assert (begun, ended) == (1, 0)
    second.cancel()
    third = asyncio.create_task(together.get("a", begin))
    await asyncio.wait([first, second])
    gate.set()
    assert await third == "made"
    assert (begun, ended) == (2, 2)

"""The tables of paths, compared with the server's listeners."""

import re
from collections.abc import AsyncIterator

import pytest

from licorne_server.assembly.server import Server
from support.docs.pages import Page, code_spans
from support.peers.shim import LOOPBACK, serving
from support.server.http_site import routes

REST = Page("docs/rest.md")
PARTITION = "/ws/v1/partition/{p}"
"""The beginning of a path that the table leaves out."""

METHODS = ("GET", "POST")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with both addresses."""
    async with serving(http=LOOPBACK, metrics=LOOPBACK) as server:
        yield server


def unnamed(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def shown() -> set[tuple[str, str]]:
    """The method and path of each entry of the table; all entries of a row have the same method."""
    found = set()
    for row in REST.table("Paths"):
        method = ""
        for span in code_spans(row[0]):
            first, _, path = span.rpartition(" ")
            method = first or method
            assert method in METHODS, f"{span} has no method"
            found.add((method, unnamed(re.sub("^…", PARTITION, path))))
    return found


def is_below(path: str, place: str) -> bool:
    """True for the place itself, and for all paths below a place that ends with dots."""
    return path == place or (place.endswith("/…") and f"{path}/".startswith(place[:-1]))


def of_the_page(path: str) -> bool:
    """True for files of the web page, which are documented elsewhere."""
    return path == "/" or path.startswith("/ui")


async def test_every_path_is_on_the_page_and_no_other(server: Server) -> None:
    """Each route has a row with its method, and each row a route."""
    everything, _ = routes(server)
    served = {(method, unnamed(path)) for method, path in everything if not of_the_page(path)}
    rows = shown()
    missing = {one for one in served if not any(m == one[0] and is_below(one[1], p) for m, p in rows)}
    gone = {row for row in rows if not any(m == row[0] and is_below(p, row[1]) for m, p in served)}
    assert (missing, gone) == (set(), set())


async def test_paths_of_the_metrics_address_are_on_the_page(server: Server) -> None:
    """The address of metrics serves exactly the paths on the page."""
    _, metrics = routes(server)
    [line] = [number for number, text in enumerate(REST.lines) if "`--metrics HOST:PORT`" in text]
    named = code_spans(" ".join(REST.lines[line : line + 2]).partition("nothing else")[0])
    assert sorted(path for _, path in metrics) == sorted(named[1:])


async def test_paths_with_permissions_exist(server: Server) -> None:
    """Each path in the table of permissions is served."""
    everything, _ = routes(server)
    served = {unnamed(path) for _, path in everything}
    spans = [span for row in REST.table("Who may read") for span in code_spans(row[0])]
    assert [s for s in spans if not any(is_below(p, unnamed(s)) for p in served)] == []

"""What several ask for is made once, and does not wait for the line of one of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from licorne_server.http import metrics, scrape
from licorne_server.http.stream import Together
from support.core.builders import config, node, nodes, register
from support.server.http_site import Site

LINE = 300
"""Slices that one reader waits for, one after the other."""


async def line_left(site: Site, ask: Callable[[], Awaitable[Any]]) -> int:
    """How many slices a busy reader of the same host still waits for once something is answered."""
    left = LINE

    async def wait() -> None:
        nonlocal left
        async with site.time_slices.slice("127.0.0.1"):
            left -= 1

    line = [asyncio.create_task(wait()) for _ in range(LINE)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await ask()
        found = left
        await asyncio.gather(*line)
    return found


@pytest.mark.parametrize("path", ["/metrics", "/ui/api/partition/default/heat"])
async def test_what_is_the_same_for_all_does_not_wait_for_the_line_of_one(site: Site, path: str) -> None:
    """A reader with very much to read makes nobody else wait for what is made once for all."""
    site.driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=1)))
    assert await line_left(site, lambda: site.ask(path)) > 0


async def test_all_who_ask_at_once_get_the_same(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many scrape while an answer is made, one is made."""
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
        async with asyncio.timeout(60):
            await all_wait.wait()
    bodies = {body for _, _, body in await asyncio.gather(*asked)}
    assert (made, len(bodies)) == (1, 1)


async def test_an_error_is_everybodys_and_the_next_one_tries_again() -> None:
    """What has failed is not kept."""
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


async def test_who_goes_away_takes_nothing_from_the_others() -> None:
    """It is given up only when nobody waits any more, and begun anew for who comes then."""
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

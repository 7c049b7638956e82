"""The listener itself: binding, stopping, and what is thrown at it."""

import asyncio
from importlib.metadata import version

import pytest

from licorne_server.http import HttpServer, Sources, Status
from support.core.driver import Driver
from support.server.http_site import Site


def server() -> HttpServer:
    """A listener over an empty core."""
    driver = Driver()
    return HttpServer(
        Sources(
            views=driver.views,
            status=Status(),
            started_time=0.0,
            now=lambda: driver.now,
            rm_state=no_state,
        )
    )


async def no_state(rm_id: str) -> str:
    """What no RM adds to a dump."""
    return "null"


async def raw(site: Site, request: bytes) -> bytes:
    """All that comes back for these bytes until the connection ends."""
    host, port = site.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_port_is_told_and_freed() -> None:
    """The port that was chosen is told, and another listener can have it after the stop."""
    first, second = server(), server()
    host, port = await first.start("127.0.0.1", 0)
    await first.stop()
    await first.stop()

    assert await second.start(host, port) == ("127.0.0.1", port)
    await second.stop()


async def test_port_in_use_is_an_error(site: Site) -> None:
    """A port that somebody listens on is refused, not shared."""
    host, port = site.address.removeprefix("http://").split(":")
    late = server()

    with pytest.raises(OSError, match="address already in use"):
        await late.start(host, int(port))
    await late.stop()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\xff\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 50_000 + b"\r\n",
        b"POST /ws/v1/validate-conf HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ],
)
async def test_garbage_disturbs_nobody(site: Site, garbage: bytes) -> None:
    """Bytes that are no request are refused or dropped, and the next request is answered."""
    answer = await raw(site, garbage)

    assert answer == b"" or answer.startswith((b"HTTP/1.0 4", b"HTTP/1.1 4"))
    assert (await site.ask("/livez"))[0] == 200


async def test_answers_do_not_say_what_they_are_made_with(site: Site) -> None:
    """No answer names the libraries inside or lets a browser guess at its type."""
    for path in ("/livez", "/ws/v1/partitions", "/nothing"):
        headers = (await site.ask(path))[1]
        assert headers["Server"] == f"licorne/{version('licorne-server')}"
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/ws/v1/clusters",
        "/ws/v1/partitions",
        "/metrics",
        "/ui/api/apps",
        "/ws/v1/nothing",
        "/livez",
    ],
)
async def test_nobody_on_the_way_keeps_an_answer(site: Site, path: str) -> None:
    """What is true of one moment and one reader is not stored, errors too."""
    _, headers, _ = await site.ask(path)
    assert headers["Cache-Control"] == "no-store"

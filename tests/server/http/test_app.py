"""The listener itself: binding, stopping, malformed input, and HEAD on open connections."""

import asyncio
from importlib.metadata import version

import pytest

from licorne_server.http import HttpServer
from licorne_server.reads.history.recorder import Recorder
from licorne_server.reads.sources import Sources, Status
from support.core.builders import config, node, nodes, register
from support.core.driver import Driver
from support.patience import PATIENCE
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
            recorder=Recorder(driver.views, lambda _: None, driver.now),
        )
    )


async def no_state(rm_id: str) -> str:
    """An RM without its own state in the dump."""
    return "null"


async def raw(site: Site, request: bytes) -> bytes:
    """The bytes received as the answer to these bytes, until the connection ends."""
    host, port = site.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_the_port_is_reported_and_freed() -> None:
    """The chosen port is reported, and another listener can use it after the stop."""
    first, second = server(), server()
    host, port = await first.start("127.0.0.1", 0)
    await first.stop()
    await first.stop()

    assert await second.start(host, port) == ("127.0.0.1", port)
    await second.stop()


async def test_a_port_in_use_is_refused(site: Site) -> None:
    """A port in use is refused, and not shared."""
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
async def test_an_invalid_request_does_not_affect_others(site: Site, garbage: bytes) -> None:
    """Bytes that are no request are refused or dropped, and the next request is answered."""
    answer = await raw(site, garbage)

    assert answer == b"" or answer.startswith((b"HTTP/1.0 4", b"HTTP/1.1 4"))
    assert (await site.ask("/livez"))[0] == 200


async def test_answers_do_not_reveal_libraries(site: Site) -> None:
    """No answer names the libraries inside, or lets a browser guess its type."""
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
async def test_answers_must_not_be_cached(site: Site, path: str) -> None:
    """Every answer, even an error, forbids its storage."""
    _, headers, _ = await site.ask(path)
    assert headers["Cache-Control"] == "no-store"


LONG = "/ws/v1/partition/default/nodes"
SHORT = "/ws/v1/partitions"


async def answers(site: Site, *requests: str) -> bytes:
    """The bytes received on one connection for these requests, the last of which ends it."""
    host, port = site.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write("".join(requests).encode())
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    await writer.wait_closed()
    return answer


def request(method: str, path: str, *headers: str) -> str:
    """A request on the wire."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""])


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("path", [LONG, SHORT, "/metrics", "/ws/v1/config", "/ws/v1/events/stream"])
async def test_an_answer_to_head_has_no_body(site: Site, path: str, encoding: str) -> None:
    """The answer to HEAD has headers only, and the next request on the connection is answered."""
    many = (node(f"node-{number}", vcore=1000) for number in range(100))
    site.driver.do(register(config("[{name: a}]")), nodes(*many))
    site.events.begin(next(iter(site.driver.scheduler.views.rms())).rm_id)
    accepted = f"Accept-Encoding: {encoding}"

    answer = await answers(
        site, request("HEAD", path, accepted), request("GET", "/livez", "Connection: close")
    )

    head, blank, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert blank
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest.endswith(b"\r\n\r\nok\n")


async def test_head_has_the_headers_of_get(site: Site) -> None:
    """HEAD has the type, encoding and Vary of GET."""
    many = (node(f"node-{number}", vcore=1000) for number in range(100))
    site.driver.do(register(config("[{name: a}]")), nodes(*many))
    told = ("Content-Type", "Content-Encoding", "Vary")
    for encoding in ("gzip", "identity"):
        found = []
        for method in ("GET", "HEAD"):
            _, headers, _ = await site.ask(LONG, method=method, Accept_Encoding=encoding)
            found.append({name: headers.get(name) for name in told})
        assert found[0] == found[1]
        assert (found[0]["Content-Encoding"] == "gzip") == (encoding == "gzip")

"""HEAD on connections that stay open: an answer with a body would spoil the next one."""

import asyncio

import pytest

from support.core.builders import config, node, nodes, register
from support.server.http_site import Site

LONG = "/ws/v1/partition/default/nodes"
SHORT = "/ws/v1/partitions"


async def answers(site: Site, *requests: str) -> bytes:
    """All that comes back on one connection for these requests, the last of which ends it."""
    host, port = site.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write("".join(requests).encode())
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return answer


def request(method: str, path: str, *headers: str) -> str:
    """A request as it goes over the wire."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""])


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("path", [LONG, SHORT, "/metrics", "/ws/v1/config", "/ws/v1/events/stream"])
async def test_the_next_answer_follows_the_headers(site: Site, path: str, encoding: str) -> None:
    """Nothing of a body comes behind the headers, so that the next request is answered whole."""
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


async def test_headers_are_those_of_get(site: Site) -> None:
    """HEAD tells type, encoding and what the answer depends on as GET does."""
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

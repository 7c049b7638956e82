"""A server with two RMs, and a page on another port behind a proxy for both."""

import http.client
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import pytest_asyncio

from licorne import Allocated, Application, Ask, Client, Node
from support.docs.commands import serving
from support.server.settings_file import settings_file

HERE = Path(__file__).parent
FIRST, SECOND = "first", "second:2"
LEAF = "team@x:1"
WIDE = f"""
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        childtemplate: {{maxapplications: 5, resources: {{max: {{vcore: 9}}}}}}
        queues:
          - name: {LEAF}
            properties: {{application.sort.policy: fair}}
            resources: {{guaranteed: {{vcore: 1}}, max: {{vcore: 8, memory: 16Gi}}}}
          - {{name: waits, resources: {{max: {{vcore: 1}}}}}}
"""
NARROW = WIDE.replace("max: {vcore: 8, memory: 16Gi}", "max: {vcore: 2, memory: 16Gi}")
TAGS = {"kubernetes.io/meta/namespace": "space", "kubernetes.io/meta/podName": "pod-1"}
GIB = 2**30


@dataclass(frozen=True)
class Pages:
    """The addresses of the page and of the server."""

    origin: str
    api: str


class _Proxy(SimpleHTTPRequestHandler):
    """Serves the files of this folder, and the server's answers, under the same origin."""

    api = ""

    def do_GET(self) -> None:
        """Serve a file, or pass the path on to the server unchanged."""
        if not self.path.startswith("/ws/"):
            super().do_GET()
            return
        connection = http.client.HTTPConnection(self.api)
        connection.putrequest("GET", self.path)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type", ""))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Suppress the log of successful requests."""


@contextmanager
def proxied() -> Iterator[tuple[str, Callable[[str], None]]]:
    """The origin of the page, and a function that sets the server's address."""

    class Proxy(_Proxy):
        """The proxy of this fixture."""

    def lead_to(api: str) -> None:
        Proxy.api = api

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Proxy, directory=str(HERE))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", lead_to
        finally:
            server.shutdown()
            thread.join()


async def populate(target: str) -> None:
    """Register two RMs. The first has a queue above its maximum, and an ask that waits."""
    async with Client(target, rm_id=FIRST, config=WIDE) as rm:
        attributes = {"si/hostname": "host-1", "si/rackname": "rack-1", "zone": "north"}
        capacity = {"vcore": 16000, "memory": 64 * GIB}
        await rm.add_nodes(
            [
                Node(node_id="n1", capacity=capacity, attributes=attributes),
                Node(node_id="n2", capacity={"vcore": 1000}),
            ]
        )
        await rm.submit_applications(
            [
                Application(application_id="app-1", queue=f"root.{LEAF}", user="ann"),
                Application(application_id="app-2", queue="root.waits", user="bob"),
            ]
        )
        size = {"vcore": 4000, "memory": 8 * GIB}
        await rm.ask(
            [
                Ask(key="k1", application_id="app-1", resources=size, priority=7, tags=TAGS),
                Ask(key="k2", application_id="app-1", resources=size),
                Ask(key="k3", application_id="app-2", resources={"vcore": 5000}),
            ]
        )
        placed = 0
        async for event in rm.events():
            placed += isinstance(event, Allocated)
            if placed == 2:
                break
        await rm.update_configuration(NARROW)
    async with Client(target, rm_id=SECOND, config=NARROW) as rm:
        await rm.add_nodes([Node(node_id="m1", capacity={"vcore": 1000})])
        await rm.ready()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served() -> AsyncIterator[Pages]:
    """The page for the server with the two RMs; pages may also read the server directly."""
    with proxied() as (origin, lead_to), serving(*settings_file(access={"cors_origins": [origin]})) as server:
        lead_to(server.http)
        await populate(server.target)
        yield Pages(origin, f"http://{server.http}")


@pytest.fixture(scope="module")
def empty() -> Iterator[Pages]:
    """The page for a server without RMs, which allows no page to read it."""
    with proxied() as (origin, lead_to), serving() as server:
        lead_to(server.http)
        yield Pages(origin, f"http://{server.http}")

"""Plays the API server of a cluster, over HTTP on loopback, for Leases and config maps.

It answers like Kubernetes, as tests/kube/test_player.py verifies: one rising resourceVersion for all objects,
409 for an update or a delete of another version, an update that creates a missing Lease, updates without a
change that keep the version, lists in pages from one moment, watches from a version that end with 410 once
that version was compacted, and label selectors. Tests switch its faults. It runs no cluster, and does not
depend on the expectations of the server under test.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from support.coordination.api_cluster import NAMESPACE, Cluster, Objects, event
from support.coordination.api_rules import KINDS, Json, Refusal, bad_request, decode
from support.patience import PATIENCE

TOKEN = "the-token-of-the-account"


@dataclass
class Fault:
    """A fault in the next calls of a verb and a kind."""

    verb: str
    """``get``, ``list``, ``watch``, ``create``, ``update``, ``delete``, or ``*`` for any."""
    plural: str = "*"
    times: int = 1
    status: int = 0
    """The status of the answer; 0 for the usual one."""
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str = "InternalError"
    carried_out: bool = False
    """True if the call has its effect, and only its answer is lost or replaced."""
    cut: bool = False
    """True to close the connection in place of an answer."""
    hold: asyncio.Event | None = None
    """The call waits until this is set, before it has its effect."""
    body: bytes | None = None
    """The body of an answer with status 200 that replaces the usual one."""
    seen: int = 0
    """The number of calls with this fault so far."""


class ApiServer:
    """Answers calls for the objects of a cluster, like Kubernetes or with faults."""

    def __init__(self) -> None:
        """Serve an empty cluster."""
        self.cluster = Cluster()
        self.faults: list[Fault] = []
        self.forbidden: set[tuple[str, str]] = set()
        self.calls: list[tuple[str, str]] = []
        """The verb and kind of every call."""
        self.tokens = {TOKEN}
        self.losing = False
        """True to lose the events of all watches."""
        self.stale: Objects | None = None
        """Objects that lists have in place of the present ones, like a stale cache."""
        self.down = False
        """True to cut every connection."""
        self._called = asyncio.Event()
        self._watches_end = 0

    def count(self, verb: str, plural: str) -> int:
        """The number of calls of that verb and kind so far."""
        return self.calls.count((verb, plural))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds, which is checked after each call."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await self._called.wait()

    def fail(self, verb: str, plural: str = "*", **how: Any) -> Fault:
        """Add a fault, and return it."""
        self.faults.append(Fault(verb, plural, **how))
        return self.faults[-1]

    def end_watches(self) -> None:
        """End every open watch in the middle."""
        self._watches_end += 1
        self.cluster.wake()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a call, or apply a fault."""
        plural, name = request.match_info["plural"], request.match_info.get("name", "")
        verb = self._verb(request, name)
        self.calls.append((verb, plural))
        fault = next((one for one in self.faults if self._hits(one, verb, plural)), None)
        if fault is not None:
            fault.times -= 1
            fault.seen += 1
        self._called.set()
        self._called = asyncio.Event()
        if self.down:
            return await self._cut(request)
        try:
            if fault is None:
                return await self._usual(request, verb, plural, name)
            if fault.hold is not None:
                await fault.hold.wait()
            if fault.carried_out or not (fault.status or fault.cut or fault.body is not None):
                usual = await self._usual(request, verb, plural, name)
                if not (fault.status or fault.cut):
                    return usual
            if fault.cut:
                return await self._cut(request)
            if fault.body is not None:
                return web.Response(body=fault.body, content_type="application/json")
            refusal = Refusal(fault.status, fault.reason, "a fault of the test")
            return self._status(refusal, fault.headers)
        except Refusal as refusal:
            return self._status(refusal, {})

    def _hits(self, fault: Fault, verb: str, plural: str) -> bool:
        return fault.times > 0 and fault.verb in ("*", verb) and fault.plural in ("*", plural)

    def _verb(self, request: web.Request, name: str) -> str:
        if request.method == "GET":
            return "get" if name else ("watch" if request.query.get("watch") in ("1", "true") else "list")
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response(status=500)

    def _status(self, refusal: Refusal, headers: Mapping[str, str]) -> web.Response:
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(refusal),
            "code": refusal.status,
        } | ({"reason": refusal.reason} if refusal.reason else {})
        return web.json_response(body, status=refusal.status, headers=headers)

    async def _usual(self, request: web.Request, verb: str, plural: str, name: str) -> web.StreamResponse:
        self._let_in(request, verb, plural)
        namespace = request.match_info["namespace"]
        if verb == "watch":
            return await self._watch(request, plural)
        if verb == "list":
            return web.json_response(self._list(request.query, plural, namespace))
        if verb == "get":
            return web.json_response(self.cluster.get(plural, name))
        if verb == "delete" and name:
            options = await request.json() if request.can_read_body else {}
            preconditions = options.get("preconditions", {})
            return web.json_response(self.cluster.delete(plural, name, preconditions))
        if (verb, bool(name)) not in (("create", False), ("update", True)):
            raise Refusal(
                405, "MethodNotAllowed", "the server does not allow this method, or it is not played"
            )
        try:
            data = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise Refusal(413, "RequestEntityTooLarge", "Request entity too large") from error
        item = decode(KINDS[plural], namespace, data)
        if namespace != NAMESPACE:
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        if verb == "create":
            return web.json_response(self.cluster.create(plural, item), status=201)
        stored, is_new = self.cluster.update(plural, name, item)
        return web.json_response(stored, status=201 if is_new else 200)

    def _list(self, query: Mapping[str, str], plural: str, namespace: str) -> Json:
        try:
            limit = int(query.get("limit", "0"))
        except ValueError as error:
            raise bad_request(f"limit: {error}") from error
        # In a namespace that does not exist every list is empty.
        stale = self.stale if namespace == NAMESPACE else {}
        return self.cluster.page(
            plural, query.get("labelSelector", ""), limit, query.get("continue", ""), stale
        )

    def _let_in(self, request: web.Request, verb: str, plural: str) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme and (scheme != "Bearer" or token not in self.tokens):
            raise Refusal(401, "Unauthorized", "Unauthorized")
        if (verb, plural) in self.forbidden or not scheme:
            user = f"system:serviceaccount:{NAMESPACE}:licorne" if scheme else "system:anonymous"
            group = KINDS[plural].version.rpartition("/")[0]
            raise Refusal(
                403,
                "Forbidden",
                f'{KINDS[plural].full} is forbidden: User "{user}" cannot {verb} '
                f'resource "{plural}" in API group "{group}" in the namespace "{NAMESPACE}"',
            )

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        given = request.query.get("resourceVersion", "") or "0"
        if not given.isdecimal():
            raise Refusal(500, "", f'resourceVersion: Invalid value: "{given}": invalid syntax')
        version = int(given)
        selector = request.query.get("labelSelector", "")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        ends, begun = self._watches_end, asyncio.get_running_loop().time()
        last = begun + float(request.query.get("timeoutSeconds", "0") or "0")
        if last == begun:
            last += 1800
        # The client may have closed the connection.
        with suppress(ConnectionError):
            if version == 0:
                # A watch from version 0 begins with the present objects.
                version = self.cluster.version
                for item in self.cluster.selected(plural, selector):
                    await _send(response, "ADDED", item)
            while ends == self._watches_end and not self.down:
                changed = self.cluster.changed
                if version < self.cluster.compacted:
                    gone = Refusal(
                        410, "Expired", f"too old resource version: {version} ({self.cluster.compacted})"
                    )
                    status = json.loads(self._status(gone, {}).body)  # type: ignore[arg-type]
                    await _send(response, "ERROR", status)
                    break
                for change in [one for one in self.cluster.history if one.version > version]:
                    version = change.version
                    told = event(change, plural, selector)
                    if told and not self.losing:
                        await _send(response, *told)
                left = last - asyncio.get_running_loop().time()
                if left <= 0:
                    await self._say_last(request, response, version)
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await changed.wait()
        return response

    async def _say_last(self, request: web.Request, response: web.StreamResponse, version: int) -> None:
        """Send a bookmark, if the client requested bookmarks. Kubernetes sends them at will."""
        if request.query.get("allowWatchBookmarks") in ("1", "true"):
            kind = KINDS[request.match_info["plural"]]
            metadata = {"resourceVersion": str(version), "creationTimestamp": None}
            bookmark = {"kind": kind.name, "apiVersion": kind.version, "metadata": metadata}
            await _send(response, "BOOKMARK", bookmark)


async def _send(response: web.StreamResponse, kind: str, item: Json) -> None:
    await response.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")


@asynccontextmanager
async def served(player: ApiServer, certificate: tuple[Path, Path] | None = None) -> AsyncIterator[str]:
    """Serve the player on a free port of loopback, with TLS if there is a key; yield the URL."""
    app = web.Application(client_max_size=3 * 1024 * 1024)
    for group, plural in (("/api/v1", "configmaps|secrets"), ("/apis/coordination.k8s.io/v1", "leases")):
        path = f"{group}/namespaces/{{namespace}}/{{plural:{plural}}}"
        app.router.add_route("*", path, player.answer)
        app.router.add_route("*", path + "/{name}", player.answer)
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"{'https' if context else 'http'}://127.0.0.1:{port}"
    finally:
        player.end_watches()
        await runner.cleanup()

"""A proxy of the API server that refuses binds, loses their answers, and cuts watches."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from ssl import create_default_context

import aiohttp
from aiohttp import web

from licorne_tools.kube.plane import ADMIN, Plane, write_kubeconfig
from support.patience import PATIENCE

LATE_SECONDS = 3.0
EXPIRED = b"Expired"
"""A part of the error by which a watch ends as too old, in any encoding."""
_OF_ONE_CONNECTION = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive", "host"})


class Fault(Enum):
    """A fault of a bind."""

    REFUSED = auto()
    """Answered with 500, and not carried out."""
    TIMED_OUT = auto()
    """Answered with 504, and not carried out."""
    LOST = auto()
    """Carried out, and answered with 504."""
    CUT = auto()
    """Carried out, and the connection ends without an answer."""
    LATE = auto()
    """Passed on after some seconds."""


@dataclass(slots=True)
class Proxy:
    """A proxy that passes everything on, except for the configured faults."""

    kubeconfig: Path
    _url: str
    _session: aiohttp.ClientSession
    is_shut: bool = False
    expired: int = 0
    """The number of answers with 410 so far, including ended watches."""
    begun: int = 0
    ended: int = 0
    """The binds with faults, and those of them that have ended."""
    _faults: list[Fault] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _watches: set[asyncio.Transport] = field(default_factory=set)

    def spoil(self, *faults: Fault) -> None:
        """Give the next binds one of these faults each."""
        self._faults.extend(faults)

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait until a condition on `begun` and `ended` holds. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while not is_true():
                self._changed.clear()
                await self._changed.wait()

    def cut(self) -> int:
        """End all open watches; return their number."""
        watches = list(self._watches)
        for transport in watches:
            transport.abort()
        return len(watches)

    def shut(self) -> None:
        """Refuse all requests and end open ones, until `is_shut` is False again."""
        self.is_shut = True
        self.cut()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        if self.is_shut:
            return _ended(request)
        if request.path.endswith("/binding") and self._faults:
            self.begun += 1
            self._changed.set()
            try:
                return await self._spoil(request, self._faults.pop(0))
            finally:
                self.ended += 1
                self._changed.set()
        return await self._pass(request)

    async def _spoil(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        match fault:
            case Fault.REFUSED:
                return _status(500, "InternalError")
            case Fault.TIMED_OUT:
                return _status(504, "Timeout")
            case Fault.LATE:
                await asyncio.sleep(LATE_SECONDS)
                return await self._pass(request)
        async with self._send(request) as answer:
            assert answer.status == 201, await answer.text()
        return _ended(request) if fault is Fault.CUT else _status(504, "Timeout")

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        is_watch = "watch" in request.query
        if is_watch:
            self._watches.add(transport)
        try:
            async with self._send(request) as answer:
                passed = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
                await passed.prepare(request)
                async for part in answer.content.iter_any():
                    self.expired += is_watch and EXPIRED in part
                    await passed.write(part)
                await passed.write_eof()
                return passed
        except (OSError, aiohttp.ClientError):
            return _ended(request)
        finally:
            self._watches.discard(transport)

    @asynccontextmanager
    async def _send(self, request: web.Request) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.request(
            request.method,
            self._url + request.raw_path,
            headers=_passed_on(request.headers),
            data=await request.read(),
        ) as answer:
            yield answer


def _passed_on(headers: "aiohttp.typedefs.LooseHeaders") -> dict[str, str]:
    return {name: text for name, text in dict(headers).items() if name.lower() not in _OF_ONE_CONNECTION}


def _status(code: int, reason: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return web.json_response({**status, "message": "the test refuses it"}, status=code)


def _ended(request: web.Request) -> web.Response:
    """Close the connection without an answer."""
    assert isinstance(request.transport, asyncio.Transport)
    request.transport.abort()
    return web.Response()


@asynccontextmanager
async def running_proxy(plane: Plane, folder: Path) -> AsyncIterator[Proxy]:
    """A proxy of the API server inside the block; its kubeconfig is in the folder."""
    trusted = create_default_context(cafile=str(plane.authority))
    # Without TLS client-go sends no token.
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {plane.token}"},
        connector=aiohttp.TCPConnector(ssl=trusted, limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    ) as session:
        proxy = Proxy(folder / "proxied", plane.url, session)
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            write_kubeconfig(
                proxy.kubeconfig, f"http://127.0.0.1:{port}", plane.authority, ADMIN, plane.token
            )
            yield proxy
        finally:
            proxy.shut()
            await runner.cleanup()

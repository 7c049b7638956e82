"""Calls to the API server, each bounded in time and in bytes.

A call that the server has refused temporarily is repeated after the time that the server requests, within the
time-out of the call: after 429 always, as nothing was carried out, and after 503 for reads only. Other calls
during that time wait too. Writes take turns, so that the server does not throttle all writes of a member that
takes over a thousand RMs; renewals have priority.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

from licorne_server.store.coordination.kubernetes.access import ClusterAccess
from licorne_server.store.coordination.kubernetes.objects import Json, version_of
from licorne_server.store.documents.documents import Conflict, StoreError

MAX_BODY = 16 * 1024 * 1024
"""Maximum number of bytes of a response. A page has 10 config maps or 100 Leases."""

MAX_EVENT = 2 * 1024 * 1024
"""Maximum number of bytes of an event of a watch."""

MAX_OBJECTS = 20_000
"""Maximum number of objects in a list, over all its pages."""

MAX_LISTED = 256 * 1024 * 1024
"""Maximum number of bytes of a list, over all its pages."""

_WRITES_A_SECOND = 50.0
_WRITES_AT_ONCE = 100


class Missing(Conflict):
    """The object does not exist (404)."""


class Expired(StoreError):
    """The requested version or page is too old (410)."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object, with its name in the API server."""

    path: str
    plural: str
    group: str
    page: int
    """Number of objects in a page."""

    @property
    def full(self) -> str:
        """The full name, for which rights are granted."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


LEASES = Resource("/apis/coordination.k8s.io/v1", "leases", "coordination.k8s.io", 100)
CONFIG_MAPS = Resource("/api/v1", "configmaps", "", 10)
SECRETS = Resource("/api/v1", "secrets", "", 10)

VERBS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "delete": "DELETE",
}
"""Methods of HTTP, by the verb of RBAC."""

_READS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class _Request:
    verb: str
    resource: Resource
    name: str = ""
    query: tuple[tuple[str, str], ...] = ()
    body: Json | None = None

    def path(self, namespace: str) -> str:
        """The path of an object, or of all objects of the kind."""
        path = f"{self.resource.path}/namespaces/{namespace}/{self.resource.plural}"
        return f"{path}/{self.name}" if self.name else path

    def __str__(self) -> str:
        return " ".join(part for part in (self.verb, self.resource.full, self.name) if part)


class _Later(StoreError):
    """The server requests that calls pause."""

    def __init__(self, message: str, seconds: float, *, repeat: bool) -> None:
        """`repeat` is True if nothing was carried out, so that the call may be repeated."""
        super().__init__(message)
        self.seconds = seconds
        self.repeat = repeat


class Turns:
    """Spaces the writes of this member, in the order of calls."""

    def __init__(self) -> None:
        """Let the first writes through at once."""
        self._free_at = 0.0

    async def wait(self, patience: float) -> None:
        """Wait for a turn.

        Raises:
            StoreError: the turn is more than `patience` seconds away.
        """
        now = asyncio.get_running_loop().time()
        apart = 1 / _WRITES_A_SECOND
        self._free_at = max(self._free_at, now - _WRITES_AT_ONCE * apart)
        delay = self._free_at - now
        if delay > patience:
            raise StoreError(f"too many writes to Kubernetes wait already: {delay:.1f} s")
        self._free_at += apart
        if delay > 0:
            await asyncio.sleep(delay)


class Api:
    """The objects of one namespace. Every call except watches ends within `timeout` seconds."""

    def __init__(self, access: ClusterAccess, namespace: str, timeout: float) -> None:
        """Connect with the first call."""
        self.timeout = timeout
        self._access = access
        self._namespace = namespace
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._closed = False
        self._turns = Turns()
        # Time before which the server wants no calls, in the loop's time.
        self._resume = 0.0

    async def get(self, resource: Resource, name: str) -> Json | None:
        """The object with this name; None if it does not exist. It is never read from a stale cache."""
        try:
            return await self._call(_Request("get", resource, name))
        except Missing:
            return None

    async def create(self, resource: Resource, body: Json, *, urgent: bool = False) -> Json:
        """Create an object. Raises Conflict if the name exists, but not for a missing namespace."""
        return await self._write(_Request("create", resource, body=body), urgent)

    async def update(self, resource: Resource, body: Json, *, urgent: bool = False) -> Json:
        """Replace the object of this name and version. Raises Conflict for another version, or `Missing`."""
        return await self._write(
            _Request("update", resource, str(body["metadata"]["name"]), body=body), urgent
        )

    async def delete(self, resource: Resource, name: str, version: str) -> None:
        """Delete the object of this version. Raises Conflict for another version, or `Missing`."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": version}}
        await self._write(_Request("delete", resource, name, body=body), False)

    async def list_all(self, resource: Resource, labels: str) -> tuple[list[Json], str]:
        """All objects with these labels, from one moment, and the version from which to watch."""
        for _ in range(3):
            # A page expires if the store is compacted.
            with suppress(Expired):
                return await self._pages(resource, labels)
        raise StoreError(f"the pages of list {resource.full} expired three times")

    async def _pages(self, resource: Resource, labels: str) -> tuple[list[Json], str]:
        found: list[Json] = []
        size = 0
        after = ""
        while True:
            query = [("labelSelector", labels), ("limit", str(resource.page))]
            if after:
                query.append(("continue", after))
            request = _Request("list", resource, query=tuple(query))
            data = await self._answer(request)
            page = _parsed(data, request)
            items = page.get("items") or []
            size += len(data)
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise StoreError(f"{request}: Kubernetes answered no list")
            found += items
            if len(found) > MAX_OBJECTS or size > MAX_LISTED:
                raise StoreError(f"{request}: more than {MAX_OBJECTS} objects, or {MAX_LISTED} bytes")
            after = page["metadata"].get("continue") or "" if isinstance(page.get("metadata"), dict) else ""
            if not after:
                return found, version_of(page)

    async def watch(
        self, resource: Resource, labels: str, version: str, seconds: float, take: Callable[[str, Json], None]
    ) -> None:
        """Pass the changes since a version to `take`, by type and object, for about `seconds`.

        Raises:
            Expired: the version is too old: all objects have to be listed again.
        """
        query = {
            "labelSelector": labels,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        request = _Request("watch", resource, query=tuple(query.items()))
        async with self._response(request, seconds + self.timeout) as response:
            rest = bytearray()
            async for chunk in response.content.iter_any():
                *lines, last = chunk.split(b"\n")
                for line in lines:
                    rest += line
                    take(*_event(bytes(rest), request))
                    rest.clear()
                rest += last
                if len(rest) > MAX_EVENT:
                    raise StoreError(f"{request}: an event has more than {MAX_EVENT} bytes")

    async def close(self) -> None:
        """Close all connections. Later calls fail."""
        self._closed = True
        await self._disconnect()

    async def _write(self, request: _Request, urgent: bool) -> Json:
        if not urgent:
            await self._turns.wait(self.timeout)
        return await self._call(request)

    async def _call(self, request: _Request) -> Json:
        return _parsed(await self._answer(request), request)

    async def _answer(self, request: _Request) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        last_start = deadline - self.timeout / 2
        while True:
            if self._resume > loop.time():
                if self._resume > last_start:
                    raise StoreError(
                        f"{request}: Kubernetes wants no calls for {self._resume - loop.time():.1f} s"
                    )
                await asyncio.sleep(self._resume - loop.time())
            try:
                async with self._response(request, deadline - loop.time()) as response:
                    return await _body(response, request)
            except _Later as later:
                # A longer pause would end the lease of a member that could otherwise have continued.
                self._resume = max(self._resume, loop.time() + min(later.seconds, self.timeout))
                if not later.repeat or self._resume > last_start:
                    raise

    @asynccontextmanager
    async def _response(self, request: _Request, seconds: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful response, to be read within `seconds`."""
        try:
            async with asyncio.timeout(seconds), await self._send(request) as response:
                if not 200 <= response.status < 300:
                    await self._refused(request, response)
                yield response
        except TimeoutError as error:
            raise StoreError(f"{request}: Kubernetes did not answer within {seconds:.1f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise StoreError(f"{request}: {type(error).__name__}: {error}") from error

    async def _send(self, request: _Request) -> aiohttp.ClientResponse:
        async with self._connecting:
            if self._closed:
                raise StoreError("the connection to Kubernetes is closed")
            try:
                self._client = self._client or await self._access.connect()
            except Exception as error:
                # The library reads files of many formats, and raises many kinds of errors.
                raise StoreError(f"no way into Kubernetes: {type(error).__name__}: {error}") from error
        try:
            response: aiohttp.ClientResponse = await self._client.call_api(
                request.path(self._namespace),
                VERBS[request.verb],
                query_params=list(request.query),
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                body=request.body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=aiohttp.ClientTimeout(total=None),
            )
        except TimeoutError:
            raise
        except Exception as error:
            # The token is read again before each call, and its file may be missing.
            raise StoreError(f"{request}: {type(error).__name__}: {error}") from error
        return response

    async def _refused(self, request: _Request, response: aiohttp.ClientResponse) -> None:
        """Raise the error of a response."""
        text = (await _body(response, request)).decode("utf-8", "replace")
        try:
            message = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            message = text[:200]
        if response.status == 401:
            # The next call reads the credentials again, because tokens are replaced while the server runs.
            await self._disconnect()
        failure = _failure(request, response.status, message)
        after = _retry_after(response)
        if after is not None:
            throttled = response.status == 429
            raise _Later(str(failure), after, repeat=throttled or request.verb in _READS) from failure
        raise failure

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


async def _body(response: aiohttp.ClientResponse, request: _Request) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > MAX_BODY:
            raise StoreError(f"{request}: the response has more than {MAX_BODY} bytes")
    return bytes(data)


def _parsed(data: bytes, request: _Request) -> Json:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{request}: Kubernetes answered no JSON: {data[:80]!r}") from error
    if not isinstance(found, dict):
        raise StoreError(f"{request}: Kubernetes answered no object: {data[:80]!r}")
    return found


def _event(line: bytes, request: _Request) -> tuple[str, Json]:
    event = _parsed(line, request)
    kind, item = event.get("type"), event.get("object")
    if not isinstance(kind, str) or not isinstance(item, dict):
        raise StoreError(f"{request}: Kubernetes sent no event: {line[:80]!r}")
    if kind == "ERROR":
        code = item.get("code")
        raise _failure(request, code if isinstance(code, int) else 500, str(item.get("message", "")))
    return kind, item


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Seconds for which the server refuses calls; None if there is no such header."""
    text = response.headers.get("Retry-After", "")
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text) if response.status in (429, 503) else None
    return 1.0 if response.status == 429 else None


def _failure(request: _Request, status: int, message: str) -> StoreError:
    """The error of a status other than 2xx."""
    text = f"{request}: Kubernetes answered {status}: {message[:500]}"
    if status == 404 and request.verb != "create":
        return Missing(text)
    if status == 409:
        return Conflict(text)
    if status == 410:
        return Expired(text)
    if status == 403:
        return StoreError(
            f"Kubernetes forbids this member to {request.verb} {request.resource.full}: its service account "
            f"needs a Role with that verb: {message[:500]}"
        )
    return StoreError(text)

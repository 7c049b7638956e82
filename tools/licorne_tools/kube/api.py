"""A client of an API server: objects as JSON, watches, and metrics, by path."""

import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from licorne_tools.bench.driver import BenchError

Json = dict[str, Any]
MERGE, STRATEGIC, APPLY = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
"""Content types of merge patches, strategic merge patches and server-side apply."""
LONGEST_LINE = 16 * 1024 * 1024
"""Maximum number of bytes of an object in a watch."""


class ApiRefused(BenchError):
    """The API server has answered a request with an error."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        """Store the HTTP status, and the reason and message of Kubernetes' answer."""
        super().__init__(f"{status} {reason}: {text}")
        self.status = status
        self.reason = reason


class Api:
    """A client with one token; the function `api` creates it."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        """Use an open session to the API server at `url`."""
        self._session = session
        self._url = url

    async def get(self, path: str, **query: str) -> Json:
        """An object or a list. Raises ApiRefused and BenchError like `request`."""
        return await self.request("GET", path, query=query)

    async def create(self, path: str, item: Json) -> Json:
        """Create an object below the path of its kind; returns it as stored. Raises as `request` does."""
        return await self.request("POST", path, item)

    async def replace(self, path: str, item: Json) -> Json:
        """Replace an object. Raises as `request` does."""
        return await self.request("PUT", path, item)

    async def patch(self, path: str, item: Json, kind: str = MERGE, **query: str) -> Json:
        """Change an object, or a part of it such as its status. Raises as `request` does."""
        return await self.request("PATCH", path, item, kind=kind, query=query)

    async def delete(self, path: str, **options: Any) -> Json:
        """Delete an object or a list, with `options` as DeleteOptions. Raises as `request` does."""
        return await self.request("DELETE", path, options or None)

    async def request(
        self,
        method: str,
        path: str,
        item: Json | None = None,
        *,
        kind: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """Send a request; returns the answer.

        Raises:
            ApiRefused: the answer is an error.
            BenchError: there is no answer.
        """
        try:
            async with self._session.request(
                method,
                self._url + path,
                params=query,
                data=None if item is None else json.dumps(item),
                headers={"Content-Type": kind},
            ) as answer:
                document = await answer.json(content_type=None) if answer.status != 204 else {}
        except (OSError, aiohttp.ClientError, ValueError, TimeoutError) as error:
            raise BenchError(f"{method} {path}: {type(error).__name__}: {error}") from None
        if answer.status >= 300:
            raise _refused(answer.status, document)
        if document is None:
            raise BenchError(f"{method} {path}: the answer is empty")
        return document

    async def text(self, path: str) -> str:
        """The text at a path such as `/readyz` or `/metrics`; empty if there is no answer."""
        try:
            async with self._session.get(self._url + path) as answer:
                return await answer.text() if answer.status == 200 else ""
        except (OSError, aiohttp.ClientError, TimeoutError):
            return ""

    async def watch(self, path: str, **query: str) -> AsyncGenerator[tuple[str, Json], None]:
        """Changes of a list, with the kind of each, until the server ends the watch.

        Without `resourceVersion` the watch begins with all existing objects.

        Raises:
            ApiRefused: the watch cannot start or continue; with status 410 its `resourceVersion` is too old.
            BenchError: there is no answer.
        """
        # Version 0 reads from the cache: streamed lists would need a newer etcd than Debian's.
        params = {"watch": "1", "resourceVersion": "0", **query}
        endless = aiohttp.ClientTimeout(total=None)
        async with self._session.get(
            self._url + path, params=params, timeout=endless, read_bufsize=LONGEST_LINE
        ) as answer:
            if answer.status != 200:
                raise _refused(answer.status, await answer.json(content_type=None))
            while line := await answer.content.readline():
                change = json.loads(line)
                if change["type"] == "ERROR":
                    raise _refused(change["object"].get("code", 0), change["object"])
                yield change["type"], change["object"]


def _refused(status: int, document: Json | None) -> ApiRefused:
    """The error for an answer with this status; `document` is None if it has no JSON."""
    told = document or {}
    return ApiRefused(status, told.get("reason", ""), told.get("message", ""))


@asynccontextmanager
async def api(url: str, authority: Path, token: str) -> AsyncIterator[Api]:
    """A client of an API server, for the duration of the block."""
    trusted = ssl.create_default_context(cafile=str(authority))
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}"}, connector=aiohttp.TCPConnector(ssl=trusted, limit=64)
    ) as session:
        yield Api(session, url)

"""`licorne.v1.Admin`: levels of the log, and the state dump."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import grpc
import pytest

from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.assembly.server import Server
from licorne_server.services.admin.operations import MAX_WANTED
from support.peers.shim import LOOPBACK, Shim, serving
from support.server.reports import dumped, refusal


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with HTTP."""
    async with serving(http=LOOPBACK) as server:
        yield server


async def test_levels_requested_by_rms_are_paged(channel: Any, usual_levels: None) -> None:
    """Without a token the first page is returned; all pages together have each RM once."""
    ids = [f"rm{number:03}" for number in range(MAX_WANTED + 20)]
    for rm_id in ids:
        await Shim(channel, rm_id).register(extraConfig={"log.core.engine.level": "DEBUG"})
    admin = AdminStub(channel)
    first = await admin.GetLogLevels(pb.GetLogLevelsRequest())
    assert [one.rm_id for one in first.wanted] == ids[:MAX_WANTED]
    assert first.next_page_token
    for size in (0, 50, 2**32 - 1):
        request = pb.GetLogLevelsRequest(page_size=size, page_token="rm")
        seen: list[str] = []
        while request.page_token:
            page = await admin.GetLogLevels(request)
            assert len(page.wanted) <= min(size or MAX_WANTED, MAX_WANTED)
            assert page.levels == first.levels
            seen += [one.rm_id for one in page.wanted]
            request.page_token = page.next_page_token
        assert seen == ids


async def test_the_dump_equals_that_of_http(server: Server, channel: Any, shim: Shim) -> None:
    """The dumps of gRPC and HTTP have the same content, except for the time."""
    await shim.set_up()
    document = json.loads(await dumped(AdminStub(channel)))
    url = f"http://{server.http_address}/debug/fullstatedump"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        other = await answer.json()
    for one in (document, other):
        del one["timestamp"], one["appHistory"], one["containerHistory"], one["clusterInfo"]
    assert document == other
    assert document["rmDiagnostics"].keys() == {"rm"}


async def test_one_dump_runs_at_a_time(server: Server, channel: Any, shim: Shim) -> None:
    """During a dump, over gRPC or HTTP, another one is refused with a reason."""
    await shim.set_up()
    admin = AdminStub(channel)
    async with server._dumps.dump("", "somebody"):
        code, text, reason = await refusal(dumped(admin))
        assert (code, text) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "a state dump is being sent already",
        )
        assert reason == "DUMP_IN_PROGRESS"
        url = f"http://{server.http_address}/debug/fullstatedump"
        async with aiohttp.ClientSession() as client, client.get(url) as answer:
            assert answer.status == 503
    assert json.loads(await dumped(admin, "rm"))
    code, _, reason = await refusal(dumped(admin, "stranger"))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RM_NOT_REGISTERED")

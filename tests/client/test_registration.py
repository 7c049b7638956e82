"""A registration that the server refuses, for the configuration or for another reason."""

import asyncio
from typing import Any

import pytest

from licorne import CallFailed, Client, ConfigInvalid, NotFound, RegistrationInvalid
from licorne_server.testing import serve
from support.patience import PATIENCE
from support.peers.shim import serving

BAD = "partitions: 7"
GOOD = "partitions: [{name: default, queues: [{name: root, queues: [{name: a}]}]}]"
HUGE = "#" * 3_000_000


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"rm_id": "[x]"}, "rmID must not hold '[' or ']': [x]"),
        ({"rm_id": ""}, "rmID is empty"),
        ({"rm_id": "[CONFIG_INVALID"}, "rmID must not hold '[' or ']': [CONFIG_INVALID"),
        ({"version": "\n"}, r"version holds control characters: \n"),
        (
            {"extra_config": {"k": "v" * 4_000_000}},
            "extraConfig has 4000001 bytes, at most 3145728 are allowed",
        ),
    ],
)
async def test_only_configurations_are_invalid_configurations(fields: dict[str, Any], text: str) -> None:
    """A refused id, version or extra configuration is an error of its own kind."""
    async with serve() as server, Client(server.target, **{"rm_id": "rm1", **fields}) as rm:
        with pytest.raises(RegistrationInvalid) as error:
            await asyncio.wait_for(rm.ready(), PATIENCE)
        assert str(error.value) == f"registration of RM failed: {text}"


async def test_a_refused_update_may_have_other_reasons() -> None:
    """A too large extra configuration is reported as another refusal, and the client continues."""
    async with serve() as server, Client(server.target, rm_id="rm1") as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
        extra = {"k": "v" * 4_000_000}
        with pytest.raises(RegistrationInvalid, match="extra_config has 4000001 bytes"):
            await rm.update_configuration("", extra)
        with pytest.raises(ConfigInvalid, match="update of configuration failed"):
            await rm.update_configuration(BAD)
        await rm.ready()


async def test_an_update_before_the_registration_is_refused() -> None:
    """An update before the registration fails with the reason, and not with a lost connection."""
    async with serve() as server:
        rm = Client(server.target, rm_id="rm1")
        with pytest.raises(NotFound, match=r"RM rm1 .* registered; .*: await `ready` first"):
            await rm.update_configuration(GOOD)
        async with rm:
            await asyncio.wait_for(rm.ready(), PATIENCE)
            assert await rm.update_configuration(GOOD)


async def test_the_reason_of_a_refused_update_is_reported() -> None:
    """If there are too many changes at once, the error says so, and no change was made."""
    async with serving() as server, Client(server.grpc_address, rm_id="rm1") as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
        lock = server.rms.lock("rm1")

        async def change() -> None:
            async with lock:
                pass

        async with lock:
            others = [asyncio.ensure_future(change()) for _ in range(100)]
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
            with pytest.raises(CallFailed) as error:
                await rm.update_configuration(GOOD)
        await asyncio.gather(*others, return_exceptions=True)
    assert error.value.reason == "TOO_MANY_FOR_ONE_RM"


async def test_a_too_large_configuration_is_invalid() -> None:
    """A configuration that is too large to be parsed is refused as an invalid configuration, too."""
    problem = "config has 3000000 bytes, at most 2097152 are allowed"
    async with serve() as server:
        async with Client(server.target, rm_id="rm1", config=HUGE) as rm:
            with pytest.raises(ConfigInvalid) as refused:
                await asyncio.wait_for(rm.ready(), PATIENCE)
            assert refused.value.problems == (problem,)
        async with Client(server.target, rm_id="rm1") as rm:
            await asyncio.wait_for(rm.ready(), PATIENCE)
            with pytest.raises(ConfigInvalid) as refused:
                await rm.update_configuration(HUGE)
            assert refused.value.problems == (problem,)

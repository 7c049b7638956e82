"""Log levels that RMs request by their extra configurations, in force while they are registered."""

import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

import licorne_core
import licorne_server
from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.rms.rm_log import MOST_IGNORED, RmLogLevels
from licorne_server.telemetry.logs import levels
from licorne_server.telemetry.logs.levels import NAMES, TURNS
from licorne_server.wire.caps import MAX_EXTRA_ENTRIES
from support.core.steps import counted, lines_in
from support.peers.shim import Shim

SCHEDULER = "log.core.scheduler.level"
BAD_CONFIG = "partitions: 1"


pytestmark = pytest.mark.usefixtures("usual_levels")


@pytest.fixture
def debugs(server: Server) -> Callable[[], bool]:
    """True if turns are logged in detail."""
    return lambda: levels().threshold(TURNS).debugs


async def update(shim: Shim, config: str = "", level: str = "") -> None:
    """Change the RM's configuration, with an extra configuration unless the level is None."""
    request = pb.UpdateConfigurationRequest(rm_id=shim.rm_id, config=config)
    if level:
        request.extra_config[SCHEDULER] = level
    await AdminStub(shim.channel).UpdateConfiguration(request)


async def test_a_level_is_in_force_while_its_rm_requests_it(
    shim: Shim, channel: Any, debugs: Callable[[], bool]
) -> None:
    """A level is in force from registration until the RM's next update, in any form."""
    other = Shim(channel, "other")
    await shim.register(extraConfig={SCHEDULER: "DEBUG"})
    assert debugs()
    await other.register(extraConfig={SCHEDULER: "-1"})
    await update(shim)
    assert debugs(), "an update without an extra configuration leaves it"
    await update(shim, level="info")
    assert debugs(), "the other one wants it still"
    await other.register()
    assert not debugs(), "it has registered without"
    with pytest.raises(grpc.aio.AioRpcError):
        await update(shim, BAD_CONFIG, level="debug")
    assert debugs(), "the extra configuration holds where the queues are refused"
    await AdminStub(channel).ForgetRm(pb.ForgetRmRequest(rm_id="rm"))
    assert not debugs(), "nobody knows it any more"


async def test_a_refused_registration_changes_nothing(shim: Shim, debugs: Callable[[], bool]) -> None:
    """A refused registration requests no level; an earlier registration remains in force."""
    with pytest.raises(grpc.aio.AioRpcError):
        await shim.register(BAD_CONFIG, extraConfig={SCHEDULER: "debug"})
    assert not debugs()
    await shim.register(extraConfig={SCHEDULER: "debug"})
    with pytest.raises(grpc.aio.AioRpcError):
        await shim.register(BAD_CONFIG)
    assert debugs()


async def test_an_operator_overrides_an_rm(shim: Shim, channel: Any, debugs: Callable[[], bool]) -> None:
    """The operator's level is in force until its removal."""
    await shim.register(extraConfig={"log.level": "debug"})
    admin = AdminStub(channel)
    await admin.SetLogLevel(pb.SetLogLevelRequest(logger="core.scheduler", level="info"))
    assert not debugs()
    await admin.SetLogLevel(pb.SetLogLevelRequest(logger="core.scheduler"))
    assert debugs()


async def test_unusable_levels_are_logged(shim: Shim, debugs: Callable[[], bool]) -> None:
    """The line has key and value of an unusable level; the other extra configuration applies."""
    extra = {
        SCHEDULER: "debug",
        "log.core.engine.level": "loud",
        "log.core.enigne.level": "debug",
        "log.core.levels": "info",
        "log.shim.context.level": "debug",
        "service.volumeBindTimeout": "10s",
    }
    with capture_logs() as lines:
        await shim.register(extraConfig=extra)
    assert debugs()
    told = [line for line in lines if line["event"] == "log level ignored"]
    assert {line["log_level"] for line in told} == {"warning"}
    assert sorted((line["rm_id"], line["key"], line["value"], line["reason"]) for line in told) == [
        ("rm", "log.core.engine.level", "loud", "it is no level"),
        (
            *("rm", "log.core.enigne.level", "debug"),
            "logger core.enigne does not exist: did you mean core.engine?",
        ),
    ]
    (wanted,) = [line for line in lines if line["event"] == "log levels wanted"]
    assert wanted["levels"] == {SCHEDULER: "debug"}
    (slip,) = [line for line in lines if line["event"] == "extra configuration ignored"]
    assert (slip["rm_id"], slip["key"]) == ("rm", "log.core.levels")
    assert slip["reason"] == "it means nothing, did you mean log.<logger>.level?"


def test_logged_and_stored_levels_are_bounded() -> None:
    """However many levels an RM requests, a few are logged, and only those of existing loggers are stored."""
    names = [*NAMES, *(f"core.none{number}" for number in range(1000))]
    given = {f"log.{name}.level": "debug" for name in names}
    rm_levels = RmLogLevels({RmId("rm"): given}.__getitem__)
    with capture_logs() as lines:
        rm_levels.follow(RmId("rm"))
    try:
        assert sum(line["event"] == "log level ignored" for line in lines) == MOST_IGNORED
        (more,) = [line for line in lines if line["event"] == "more log levels ignored"]
        ignored = len(names) - len(NAMES) + 1
        assert more["number"] == ignored - MOST_IGNORED, "the audit's logger has no level"
        (wanted,) = [line for line in lines if line["event"] == "log levels wanted"]
        assert len(wanted["levels"]) == len(NAMES) - 1
        assert levels().threshold(TURNS).debugs
    finally:
        rm_levels.forget_all()
    assert not levels().threshold(TURNS).debugs, "the server has stopped"


@pytest.mark.pure
@pytest.mark.parametrize("name", ["core.none", "shim.none", "none"])
def test_the_largest_extra_configuration_is_applied_quickly(name: str) -> None:
    """The largest extra configuration is applied in one step of the loop, in a few lines per entry."""
    ours = licorne_core.__path__[0], licorne_server.__path__[0]
    given = {f"log.{name}{number}.level": "5" for number in range(MAX_EXTRA_ENTRIES)}
    rm_levels = RmLogLevels({RmId("rm"): given}.__getitem__)
    with capture_logs():
        lines = counted(lambda: rm_levels.follow(RmId("rm")), lambda file: file.startswith(ours))
    assert lines.total() < 25 * MAX_EXTRA_ENTRIES


def test_suggestions_are_computed_for_logged_names_only() -> None:
    """Suggestions are computed only for logged names, whatever the number of keys."""

    def follow(count: int) -> None:
        given = {f"log.core.engin{number}.level": "debug" for number in range(count)}
        with capture_logs():
            RmLogLevels({RmId("rm"): given}.__getitem__).follow(RmId("rm"))

    few, many = (lines_in(partial(follow, count), difflib) for count in (MOST_IGNORED, 300))
    assert few.total()
    assert many.total() < 2 * few.total()


@pytest.mark.parametrize("number", range(-1, 6))
def test_numbers_are_valid_levels(number: int) -> None:
    """The older core's seven levels are supported as numbers; those above `error` are `error`."""
    given = {SCHEDULER: str(number)}
    rm_levels = RmLogLevels({RmId("rm"): given}.__getitem__)
    with capture_logs() as lines:
        rm_levels.follow(RmId("rm"))
        rm_levels.forget(RmId("rm"))
    level = {-1: "debug", 0: "info", 1: "warning"}.get(number, "error")
    assert [line["levels"] for line in lines] == [{SCHEDULER: level}, {}]

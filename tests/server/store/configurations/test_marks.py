"""Acts of operators survive a restart, until they are undone or the application ends."""

from dataclasses import replace
from pathlib import Path

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1.admin_pb2 import (
    ChangeApplicationRequest,
    DrainNodeRequest,
    GetLogLevelsRequest,
    HoldApplicationRequest,
    SetLogLevelRequest,
    SetNodeSchedulableRequest,
    SetQueueStoppedRequest,
    UpdateConfigurationRequest,
)
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.values.ids import NodeId, PartitionName, RmId
from licorne_server.store.configurations import revisions
from licorne_server.store.configurations.applying import unmark
from licorne_server.store.configurations.revisions import Mark, MarkKind, Revisions
from licorne_server.telemetry.logs import levels
from support.core.builders import config
from support.peers.shim import Shim, connected, eventually, serving
from support.server.configuring import A

TWO = config("[{name: a}, {name: b}]", rest="placementrules: [{name: fixed, value: root.a}]")


async def test_acts_on_an_application_survive_a_restart(tmp_path: Path) -> None:
    """After a restart the RM names the application with its old queue, and the acts apply to it again."""
    hold = HoldApplicationRequest(rm_id="rm", application_id="app", held=True, message="data")
    change = ChangeApplicationRequest(rm_id="rm", application_id="app", queue="root.b", priority=-4)
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).set_up(config=TWO)
        await AdminStub(channel).HoldApplication(hold)
        await AdminStub(channel).ChangeApplication(change)
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        shim = Shim(channel)
        _, applications, _ = await shim.set_up(config=TWO)
        app = server.scheduler.views.application(PartitionName("[rm]default"), "app")
        assert (app.queue, app.operator_priority) == ("root.b", -4)
        assert app.hold is not None
        assert app.change is not None
        assert (app.hold.message, app.hold.time > 0, bool(app.change.by)) == ("data", True, True)
        removal = si.RemoveApplicationRequest(applicationID="app", partitionName="default")
        await applications.send(si.ApplicationRequest(rmID="rm", remove=[removal]))
        await eventually(lambda: not server.changes.configurations.get("rm").marks)


async def test_marks_survive_a_restart(tmp_path: Path) -> None:
    """A drained node and a stopped queue remain so after a restart, with operator and reason."""
    drain = SetNodeSchedulableRequest(rm_id="rm", node_id="n0", message="disk")
    stop = SetQueueStoppedRequest(rm_id="rm", queue="root.a", stopped=True)
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).set_up(config=A)
        await AdminStub(channel).SetNodeSchedulable(drain)
        await AdminStub(channel).SetQueueStopped(stop)
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        shim = Shim(channel)
        await shim.set_up(config=A)
        views = server.scheduler.views
        cordon = views.node(PartitionName("[rm]default"), NodeId("n0")).closed
        assert cordon is not None
        assert (cordon.by, cordon.message) == ("127.0.0.1", "disk")
        assert views.queue(PartitionName("[rm]default"), "root.a").state == "Stopped"
        marks = server.changes.configurations.get("rm").marks
        assert [(mark.name, mark.why, bool(mark.by), mark.time > 0) for mark in marks] == [
            ("n0", "disk", True, True),
            ("root.a", "", True, True),
        ]
        stop.stopped = False
        await AdminStub(channel).SetQueueStopped(stop)
        await shim.register(A)
        assert views.queue(PartitionName("[rm]default"), "root.a").state == "Active"


@pytest.mark.parametrize("seconds", [None, 0, 600])
async def test_a_drain_survives_a_restart(tmp_path: Path, seconds: int | None) -> None:
    """Deadline and count are those of the drain's beginning, and the drain ends with the cordon."""
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).set_up(config=A)
        request = DrainNodeRequest(rm_id="rm", node_id="n0", deadline_seconds=seconds)
        await AdminStub(channel).DrainNode(request)
        before = server.scheduler.views.node(PartitionName("[rm]default"), NodeId("n0")).extended["drain"]
        assert before is not None
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).set_up(config=A)
        assert (
            server.scheduler.views.node(PartitionName("[rm]default"), NodeId("n0")).extended["drain"]
            == before
        )
        uncordon = SetNodeSchedulableRequest(rm_id="rm", node_id="n0", schedulable=True)
        await AdminStub(channel).SetNodeSchedulable(uncordon)
        assert server.changes.configurations.get("rm").marks == ()


async def test_log_levels_survive_a_restart(tmp_path: Path) -> None:
    """Levels set by operators are in force again, with operator and reason; a cleared level is not."""
    debug = SetLogLevelRequest(logger="core.engine", level="debug", message="slow turns")
    try:
        async with serving(state_dir=tmp_path) as server, connected(server) as channel:
            admin = AdminStub(channel)
            await admin.SetLogLevel(debug)
            await admin.SetLogLevel(SetLogLevelRequest(logger="core.rms", level="error"))
            await admin.SetLogLevel(SetLogLevelRequest(logger="core.rms"))
        levels().begin("info")
        async with serving(state_dir=tmp_path) as server, connected(server) as channel:
            answer = await AdminStub(channel).GetLogLevels(GetLogLevelsRequest())
    finally:
        levels().begin("info")
    assert dict(answer.levels) == {"": "info", "core.engine": "debug"}
    marks = {name: (mark.by, mark.message, mark.time > 0) for name, mark in answer.marks.items()}
    assert marks == {"core.engine": ("127.0.0.1", "slow turns", True)}


async def test_a_mark_that_ends_during_a_change_is_not_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an application ends while a configuration is stored, its mark is not restored then or later."""
    gone = [(PartitionName("[rm]default"), "app")]
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).set_up(config=TWO)
        admin, configurations = AdminStub(channel), server.changes.configurations
        await admin.HoldApplication(HoldApplicationRequest(rm_id="rm", application_id="app", held=True))
        assert configurations.get("rm").marks
        prepare = configurations.stored.prepare

        async def prepare_slowly(rm_id: RmId, revisions: Revisions) -> None:
            await prepare(rm_id, revisions)
            unmark(configurations, RmId("rm"), gone)

        monkeypatch.setattr(configurations.stored, "prepare", prepare_slowly)
        await admin.UpdateConfiguration(UpdateConfigurationRequest(rm_id="rm", config=A))
        assert configurations.get("rm").marks == ()
        assert configurations.get("rm").current.text == A
    async with serving(state_dir=tmp_path) as server:
        assert server.changes.configurations.get("rm").marks == ()
        assert server.changes.configurations.get("rm").current.text == A


def test_a_mark_is_read_without_the_extension_of_its_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without drains reads marks of nodes with drains, except for their terms."""
    monkeypatch.setattr(revisions, "table", lambda _: {})
    stored = Mark(kind=MarkKind.NODE, partition=PartitionName("default"), name="n1", drain={"grace": 1.0})
    assert revisions.with_terms(stored) == replace(stored, drain=None)

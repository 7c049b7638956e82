"""`Admin`, alone and as `Client.admin`: acts of operators, and refusals."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from licorne import (
    Admin,
    Application,
    Ask,
    CallFailed,
    ConfigInvalid,
    NotFound,
    Rejected,
    StaleRevision,
    State,
    TaskGroup,
    Unauthorized,
)
from licorne_core.config import load
from licorne_server.telemetry.logs import levels
from licorne_server.testing import FakeRM, Served, serve
from support.members import deployment
from support.peers.shim import serving

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: batch, resources: {max: {vcore: 2}}}
"""
WIDER = QUEUES.replace("vcore: 2", "vcore: 3")
BAD = "partitions: [{name: default, queues: [{name: a.b}, {name: c.d}]}]"


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """A server."""
    async with serve() as server:
        yield server


@pytest.fixture
async def rm(server: Served) -> AsyncIterator[FakeRM]:
    """An RM whose queue has a maximum of two cores, with one ask too many."""
    async with FakeRM(server.target, config=QUEUES) as rm:
        await rm.add_nodes(2, vcore=4000)
        await rm.submit("job", queue="root.batch", user="ann")
        await rm.ask("job", 3, vcore=1000)
        await rm.allocated(2)
        yield rm


@pytest.fixture
async def admin(server: Served, rm: FakeRM) -> AsyncIterator[Admin]:
    """The operator of that RM."""
    async with Admin(server.target, rm_id="rm1") as admin:
        yield admin


async def test_configurations_are_read_and_changed(admin: Admin, rm: FakeRM) -> None:
    """Get, validate, plan, update, list and roll back: the last one is in force."""
    before = await admin.configuration()
    assert (before.config, before.revision) == (QUEUES, 1)
    assert (await admin.validate_configuration(WIDER)).allowed
    assert len((await admin.validate_configuration(BAD)).problems) == 2
    compared = await admin.validate_configuration(WIDER, compare=True)
    assert [change.name for change in compared.changes] == ["queue root.batch"]
    plan = await admin.plan_configuration(WIDER, base_revision=1)
    assert [ask.allocation_key for ask in plan.placed] == ["job-3"]
    done = await admin.update_configuration(WIDER, base_revision=1, comment="more room")
    assert (done.changed, done.revision) == (True, 2)
    await rm.allocated(3)
    history = await admin.configurations(with_config=True)
    assert [(one.revision, one.comment) for one in history] == [(2, "more room"), (1, "")]
    assert [one.config for one in await admin.configurations(revision=1, with_config=True)] == [QUEUES]
    assert (await admin.roll_back_configuration()).revision == 3
    assert (await admin.configuration()).config == QUEUES


async def test_configurations_applied_by_the_rm_end_with_it(server: Served, rm: FakeRM) -> None:
    """After a restart a configuration applied by `rm.admin` is lost, and the client's own is in force."""
    await rm.client.admin.update_configuration(WIDER)
    await server.restart()
    await rm.until(lambda: rm.client.stats.replayed == 2, "the second replay")
    assert (await rm.client.admin.configuration()).config == QUEUES
    await rm.client.update_configuration(WIDER)
    await server.restart()
    await rm.until(lambda: rm.client.stats.replayed == 3, "the third replay")
    assert (await rm.client.admin.configuration()).config == WIDER


async def test_a_change_with_a_stale_revision_has_the_newer_one(admin: Admin) -> None:
    """No change is made, and the error has the revision in force."""
    await admin.update_configuration(WIDER)
    for change in (
        admin.update_configuration(QUEUES, base_revision=1),
        admin.roll_back_configuration(1, base_revision=1),
        admin.plan_configuration(QUEUES, base_revision=1),
    ):
        with pytest.raises(StaleRevision, match="revision") as stale:
            await change
        assert stale.value.revision == 2
    assert (await admin.configuration()).config == WIDER


async def test_a_bad_configuration_has_all_its_problems(admin: Admin) -> None:
    """Update and plan raise every problem; the configuration in force is unchanged."""
    for call in (admin.update_configuration(BAD), admin.plan_configuration(BAD)):
        with pytest.raises(ConfigInvalid) as invalid:
            await call
        assert len(invalid.value.problems) == 2
    with pytest.raises(NotFound, match="revision 99 of RM rm1 is not kept"):
        await admin.roll_back_configuration(99)
    assert (await admin.configuration()).revision == 1


async def test_the_file_is_reloaded(tmp_path: Path, server: Served) -> None:
    """A server with a file applies its new content; one without refuses the call."""
    async with Admin(server.target) as admin:
        with pytest.raises(CallFailed) as failed:
            await admin.reload_configuration()
        assert failed.value.reason == "NO_CONFIGURATION_FILE"
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    async with (
        serving(default_config=load(QUEUES), config_file=file) as other,
        Admin(other.grpc_address) as admin,
    ):
        assert not (await admin.reload_configuration()).changed
        file.write_text(WIDER)
        assert (await admin.reload_configuration()).changed
        file.write_text(BAD)
        with pytest.raises(ConfigInvalid):
            await admin.reload_configuration()


async def test_a_submission_is_planned(admin: Admin, rm: FakeRM) -> None:
    """The plan has queue and nodes of an application and its asks, with the placeholders of a gang."""
    gang = TaskGroup(name="g", members=2, resources={"vcore": 1000})
    application = Application(application_id="new", queue="root.batch", user="bob", task_groups=(gang,))
    ask = Ask(key="n-1", application_id="new", resources={"vcore": 1000})
    plan = await admin.plan_submission(application, [ask])
    assert (plan.accepted, plan.queue) == (True, "root.batch")
    assert [planned.allocation_key for planned in plan.asks] == [
        "new-g-placeholder-1",
        "new-g-placeholder-2",
        "n-1",
    ]
    assert {planned.code for planned in plan.asks} == {"QUEUE_MAX_EXCEEDED"}
    with pytest.raises(Rejected, match="traceparent is 'x'"):
        await admin.plan_submission(
            application, [Ask(key="k", application_id="new", resources={}, traceparent="x")]
        )
    text = "{application: new, queue: root.batch, user: bob, asks: [{name: n-1, resources: {vcore: 1}}]}"
    assert [one.allocation_key for one in (await admin.plan_submission(text)).asks] == ["n-1"]
    with pytest.raises(ValueError, match="asks: those of an application that is a text"):
        await admin.plan_submission(text, [ask])
    assert [one.application_id for one in await rm.client.state.applications()] == ["job"]


async def test_operators_act_on_nodes_applications_and_queues(admin: Admin, rm: FakeRM) -> None:
    """A node is drained and opened, a queue stopped and started, an application ended."""
    assert (await admin.set_node_schedulable("node-1", False)).changed
    [drained] = [node.node_id for node in await rm.client.state.nodes() if node.drained]
    assert drained == "node-1"
    assert (await admin.set_node_schedulable("node-1", True)).changed
    assert (await admin.set_queue_stopped("root.batch", True)).state == "Stopped"
    assert (await admin.set_queue_stopped("root.batch", False)).state == "Active"
    assert (await admin.hold_application("job", True, message="late")).changed
    assert (await admin.hold_application("job", False)).changed
    assert (await admin.change_application("job", priority=-3)).operator_priority == -3
    assert not (await admin.change_application("job", reset_priority=True)).HasField("operator_priority")
    ended = await admin.stop_application("job", "enough")
    assert (ended.allocations, ended.asks) == (2, 1)
    for call in (
        admin.set_node_schedulable("nowhere", False),
        admin.drain_node("nowhere"),
        admin.set_queue_stopped("root.nowhere", True),
        admin.stop_application("nobody"),
        admin.set_node_schedulable("node-1", False, partition="gpu"),
    ):
        with pytest.raises(NotFound):
            await call


async def test_a_node_is_drained_by_a_deadline(admin: Admin, rm: FakeRM) -> None:
    """The answer counts the allocations to stop, and the node reports its drain with the given seconds."""
    await admin.drain_node("node-1")
    [drain] = [node.drain for node in await rm.client.state.nodes() if node.drained]
    assert (drain.allocations, drain.deadline, drain.stopping) == (1, 0, 0)
    answer = await admin.drain_node("node-1", 60, message="disk")
    assert (answer.allocations, answer.exempt) == (1, 0)
    [drain] = [node.drain for node in await rm.client.state.nodes() if node.drained]
    assert (drain.allocations, drain.deadline - drain.start_time) == (1, 60 * 10**9)


async def test_members_are_listed_and_drained(admin: Admin) -> None:
    """The list has the members of a deployment; a single server has none."""
    async with deployment("a", "b") as [first, _], Admin(first.grpc_address) as operator:
        assert (await operator.drain_member("b", message="why")).changed
        shown = {member.name: member for member in (await operator.members()).members}
        assert (shown["a"].state, shown["b"].state, shown["b"].drained_why) == ("active", "draining", "why")
        assert (await operator.drain_member("b", False)).changed
        with pytest.raises(NotFound):
            await operator.drain_member("nobody")
    for call in (admin.members(), admin.drain_member("a")):
        with pytest.raises(CallFailed) as failed:
            await call
        assert failed.value.reason == "NO_COORDINATION"


async def test_budgets_are_replaced_and_read(admin: Admin, server: Served) -> None:
    """Budgets have revisions and problems as configurations do; a served RM is not released."""
    text = "budgets: [{name: company, limit: {vcore: 4}, members: [{rm: '*'}]}]"
    assert (await admin.update_budgets(text, comment="why")).revision == 1
    assert (await admin.budgets()).comment == "why"
    with pytest.raises(StaleRevision):
        await admin.update_budgets(text, base_revision=7)
    with pytest.raises(ConfigInvalid):
        await admin.update_budgets(text.replace("limit", "limits"))
    async with State(server.target) as state:
        [budget] = await state.budgets()
    assert (budget.name, dict(budget.limit)) == ("company", {"vcore": 4000})
    with pytest.raises(CallFailed) as failed:
        await admin.release_budget()
    assert failed.value.reason == "RM_SERVED"


async def test_log_levels_are_set_and_reset(admin: Admin) -> None:
    """A logger gets its own level and loses it again; an unknown level is refused."""
    before = await admin.log_levels()
    try:
        assert (await admin.set_log_level("debug", "core.scheduler"))["core.scheduler"] == "debug"
        with pytest.raises(CallFailed, match="loud"):
            await admin.set_log_level("loud")
    finally:
        assert "core.scheduler" not in await admin.set_log_level("", "core.scheduler")
    assert await admin.log_levels() == before
    assert levels().of_others() == before[""]


async def test_a_dump_is_one_document(admin: Admin) -> None:
    """The parts of a dump together are JSON, and include the RM."""
    dump = b"".join([piece async for piece in admin.dump_state()])
    assert "rm1" in json.dumps(json.loads(dump))


async def test_a_disconnected_rm_is_forgotten(server: Served, admin: Admin) -> None:
    """The RM must be disconnected, and without running allocations unless forced; then it is removed."""
    async with FakeRM(server.target, rm_id="rm2") as rm, Admin(server.target, rm_id="rm2") as of2:
        await rm.add_nodes(1)
        await rm.submit("a")
        await rm.ask("a")
        await rm.allocated(1)
        with pytest.raises(CallFailed) as failed:
            await of2.forget_rm()
        assert failed.value.reason == "RM_CONNECTED"
        await rm.close()
        with pytest.raises(CallFailed) as failed:
            await of2.forget_rm()
        assert failed.value.reason == "RM_HAS_ALLOCATIONS"
        await of2.forget_rm(force=True)
        for call in (of2.configuration(), of2.forget_rm(), of2.update_configuration(QUEUES)):
            with pytest.raises(NotFound, match="rm2"):
                await call


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda admin: admin.update_configuration(None), TypeError, "config is None: it must"),
        (lambda admin: admin.plan_configuration(b"x"), TypeError, "config is b'x': it must"),
        (lambda admin: admin.configurations(revision=-1), ValueError, "revision is -1: it must"),
        (lambda admin: admin.configurations(revision="1"), TypeError, "revision is '1': it must"),
        (
            lambda admin: admin.update_configuration(QUEUES, extra_config={"a": 1}),
            ValueError,
            "extra_config\\['a'\\] is 1: it must be a text",
        ),
        (lambda admin: admin.change_application("job", priority=2**31), ValueError, "priority is 2147483648"),
        (lambda admin: admin.drain_node("n", -1), ValueError, "deadline_seconds is -1: it must"),
        (lambda admin: admin.set_queue_stopped("root", "no"), TypeError, "stopped is 'no': it"),
        (lambda admin: admin.set_node_schedulable("n", True, partition=7), TypeError, "partition"),
    ],
)
async def test_invalid_arguments_are_named(
    admin: Admin, call: Callable[[Admin], Awaitable[object]], error: type[Exception], said: str
) -> None:
    """An argument of a wrong type or size is refused with its name and value, and nothing is sent."""
    with pytest.raises(error, match=said):
        await call(admin)
    assert (await admin.configuration()).revision == 1


async def test_calls_about_one_rm_need_its_name(server: Served) -> None:
    """A call that needs an RM fails without one, before anything is sent."""
    async with Admin(server.target) as admin:
        with pytest.raises(ValueError, match="rm_id is empty: `forget_rm`"):
            await admin.forget_rm()
        with pytest.raises(ValueError, match="rm_id is empty: `update_configuration`"):
            await admin.update_configuration(QUEUES)


async def test_an_rm_may_act_on_its_own_data(tmp_path: Path) -> None:
    """With its token an RM may update its configuration, and may not drain its nodes."""
    tokens = {"rm1": "the-token-of-that-rm", "boss": "the-token-of-an-operator"}
    for name, token in tokens.items():
        (tmp_path / name).write_text(token)
    files = {"rm1": (tmp_path / "rm1",)}
    async with (
        serving(rm_tokens=files, operator_tokens=(tmp_path / "boss",)) as server,
        FakeRM(server.grpc_address, config=QUEUES, token=tmp_path / "rm1") as rm,
        Admin(server.grpc_address, rm_id="rm1", token=tmp_path / "boss") as boss,
    ):
        await rm.add_nodes(1)
        assert (await rm.client.admin.update_configuration(WIDER)).changed
        with pytest.raises(Unauthorized):
            await rm.client.admin.set_node_schedulable("node-1", False)
        assert (await boss.set_node_schedulable("node-1", False)).changed

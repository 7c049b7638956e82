"""Budgets over RMs: calls of operators, the file, and reports."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as pb
from licorne.v1 import state_pb2 as sp
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.extensions.budgets.reports import budget_reports
from licorne_server.assembly.server import Server
from licorne_server.process.settings import SettingsError
from licorne_server.store.configurations.default_file import INTERVAL
from licorne_server.testing import VirtualClock
from support.peers.shim import Shim, ask, connected, eventually, new_allocations, serving
from support.server.configuring import write

if TYPE_CHECKING:
    from licorne.v1.admin_pb2_grpc import AdminAsyncStub
    from licorne.v1.state_pb2_grpc import StateAsyncStub

BUDGETS = """
budgets:
  - name: company
    limit: {vcore: 300m}
    members: [{rm: "*"}]
"""
WIDER = BUDGETS.replace("300m", "500m")
BROKEN = BUDGETS.replace("limit", "limits")


async def update(
    admin: "AdminAsyncStub", text: str, base: int = 0, why: str = ""
) -> pb.UpdateBudgetsResponse:
    """Put budgets into force."""
    return await admin.UpdateBudgets(pb.UpdateBudgetsRequest(budgets=text, base_revision=base, comment=why))


async def listed(state: "StateAsyncStub") -> list[sp.Budget]:
    """All budgets."""
    return list((await state.ListBudgets(sp.ListBudgetsRequest())).budgets)


async def test_a_budget_bounds_two_rms_together(
    channel: grpc.aio.Channel, admin: "AdminAsyncStub", state: "StateAsyncStub"
) -> None:
    """Usage of one RM is not available to another; the check has the holder, a new limit wakes the ask."""
    await update(admin, BUDGETS)
    one, other = Shim(channel, "one"), Shim(channel, "other")
    [calls, others] = [await shim.set_up() for shim in (one, other)]
    await one.ask(calls[0], ask("a"), ask("b"))
    await new_allocations(calls[0], 2)
    await other.ask(others[0], ask("c"), ask("d"))
    await new_allocations(others[0], 1)
    [budget] = await listed(state)
    assert (budget.name, dict(budget.limit), dict(budget.used)) == ("company", {"vcore": 300}, {"vcore": 300})
    assert budget.unassigned == {"vcore": 0}
    assert {held.rm_id: held.used["vcore"] for held in budget.holdings} == {"one": 200, "other": 100}
    [waiting] = [held for held in budget.holdings if held.wanted]
    assert (waiting.rm_id, dict(waiting.wanted)) == ("other", {"vcore": 100})

    names = [app.allocation_key async for app in _waiting(state, "[other]default")]
    answer = await state.Explain(
        sp.ExplainRequest(partition="[other]default", application_id="app", allocation_key=names[0])
    )
    [check] = [check for check in answer.checks if check.code == "BUDGET_EXCEEDED"]
    assert (check.kind, check.subject, check.passed) == ("budget", "company", False)
    assert {held.rm_id: held.used["vcore"] for held in check.holders} == {"one": 200, "other": 100}
    await update(admin, WIDER)
    await new_allocations(others[0], 1)


async def _waiting(state: "StateAsyncStub", partition: str) -> AsyncIterator[sp.Ask]:
    request = sp.GetApplicationRequest(partition=partition, application_id="app")
    for one in (await state.GetApplication(request)).asks:
        yield one


async def test_budgets_are_paged(admin: "AdminAsyncStub", state: "StateAsyncStub") -> None:
    """Pages follow each other in the order of the tree."""
    names = [f"team-{number}" for number in range(5)]
    await update(
        admin, "budgets:\n" + "".join(f"  - {{name: {name}, limit: {{vcore: 1}}}}\n" for name in names)
    )
    found, token = [], ""
    while True:
        page = await state.ListBudgets(sp.ListBudgetsRequest(page_size=2, page_token=token))
        found += [budget.name for budget in page.budgets]
        token = page.next_page_token
        if not token:
            break
    assert found == names


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of the file with the budgets."""
    path = tmp_path / "budgets.yaml"
    write(path, BUDGETS)
    return path


def in_force(server: Server) -> tuple[str, int, str]:
    """The text, revision and source of the budgets in force."""
    definition = server.budgets.definition.definition
    return definition.text, definition.revision, definition.source.value


async def test_an_update_survives_a_restart(file: Path, tmp_path: Path) -> None:
    """With a state directory an operator's budgets precede the file, and the log names the file."""
    folder = tmp_path / "state"
    async with serving(budgets_file=file, state_dir=folder) as server, connected(server) as channel:
        assert in_force(server) == (BUDGETS, 1, "file")
        assert (await update(AdminStub(channel), WIDER)).persistent
    with capture_logs() as lines:
        async with serving(budgets_file=file, state_dir=folder) as server:
            assert in_force(server) == (WIDER, 2, "operator")
            assert budget_reports(server.scheduler.views)[0].limit == {"vcore": 500}
    [line] = [line for line in lines if line["event"] == "budgets of the file not taken"]
    assert line["file"] == str(file)


async def test_a_changed_file_replaces_its_budgets_after_a_restart(file: Path, tmp_path: Path) -> None:
    """Budgets from the file are replaced by the changed file, with a new revision."""
    folder = tmp_path / "state"
    async with serving(budgets_file=file, state_dir=folder):
        pass
    write(file, WIDER)
    async with serving(budgets_file=file, state_dir=folder) as server:
        assert in_force(server) == (WIDER, 2, "file")


async def test_a_reload_reads_the_changed_file(file: Path) -> None:
    """A changed file is in force after a reload; an unchanged one keeps an operator's budgets."""
    async with serving(budgets_file=file) as server, connected(server) as channel:
        admin = AdminStub(channel)
        await update(admin, WIDER)
        assert not (await admin.ReloadConfiguration(pb.ReloadConfigurationRequest())).budgets_changed
        assert in_force(server) == (WIDER, 2, "operator")
        write(file, BUDGETS.replace("300m", "400m"))
        assert (await admin.ReloadConfiguration(pb.ReloadConfigurationRequest())).budgets_changed
        assert in_force(server)[1:] == (3, "file")
        write(file, BROKEN)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await admin.ReloadConfiguration(pb.ReloadConfigurationRequest())
        assert str(file) in str(raised.value.details())
        assert in_force(server)[1] == 3


async def test_a_changed_file_is_detected(file: Path) -> None:
    """The file is watched like that of the default configuration."""
    clock = VirtualClock()
    async with serving(clock=clock, budgets_file=file, watch_config=True) as server:
        write(file, WIDER)
        for _ in range(3):
            await clock.advance(INTERVAL)
        await eventually(lambda: in_force(server)[1] == 2)
        assert in_force(server) == (WIDER, 2, "file")


async def test_invalid_budgets_prevent_the_start(file: Path) -> None:
    """The error has the file, the place and the problem."""
    write(file, BROKEN)
    with pytest.raises(SettingsError, match=r"budgets.yaml:4:5: budgets\[0\]"):
        async with serving(budgets_file=file):
            pass

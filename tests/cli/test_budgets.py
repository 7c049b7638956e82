"""`licorne budgets` against a running server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from licorne.v1.state_pb2 import Budget, BudgetHolding
from licorne_cli.nouns.budgets import BUDGETS
from support.peers.shim import Shim, ask, connected, new_allocations, serving
from support.peers.town import Shell
from support.server.configuring import write

TEXT = """budgets:
  - name: company
    limit: {vcore: 300m}
    members: [{rm: "*"}]
    budgets:
      - name: research
        limit: {vcore: 1}
        members: [{queue: root.research}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of budgets."""
    path = tmp_path / "budgets.yaml"
    path.write_text(TEXT)
    return path


@asynccontextmanager
async def shell_of(capsys: pytest.CaptureFixture[str]) -> AsyncIterator[tuple[Shell, Shim]]:
    """A server with one RM, and the command line."""
    async with serving() as server, connected(server) as channel:
        yield Shell(server.grpc_address, capsys), Shim(channel)


async def test_budgets_are_applied_and_shown(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """The difference is printed before, the tree after the change; each budget lists its holders."""
    async with shell_of(capsys) as (shell, shim):
        assert (await shell("budgets")).err == "no budgets found\n"
        unasked = await shell("budgets", "apply", str(file))
        assert unasked.code == 1
        assert "+    limit: {vcore: 300m}" in unasked.err.splitlines()
        applied = await shell("budgets", "apply", str(file), "--yes", "--message", "short of licences")
        assert applied.code == 0
        assert applied.err.splitlines()[-1] == (
            "budgets: revision 1 is in force; the server has no --state-dir, so that its restart undoes it"
        )
        calls = await shim.set_up()
        await shim.ask(calls[0], *(ask(f"a{number}") for number in range(4)))
        await new_allocations(calls[0], 3)
        assert (await shell("budgets")).rows == [
            ["BUDGET", "RM", "LIMIT", "USED", "UNASSIGNED", "WANTED"],
            ["company", "-", "vcore=300m", "vcore=300m", "vcore=0", "-"],
            ["company", "rm", "-", "vcore=300m", "-", "vcore=100m"],
            ["company/research", "-", "vcore=1", "vcore=0", "vcore=1", "-"],
        ]
        shown = (await shell("budgets", "company", "-o", "json")).json["budgets"]
        assert [(one["name"], one["limit"]) for one in shown] == [("company", {"vcore": 300})]
        assert (await shell("budgets", "-o", "name")).out.split() == [
            "budget/company",
            "budget/company/research",
        ]
        assert (await shell("budgets", "lost")).code == 3
        explained = await shell("explain", "app", "a3", "--rm", "rm")
        assert "BUDGET_EXCEEDED" in explained.out
        assert "rm" in explained.out


async def test_refused_budgets_have_a_line_for_each_problem(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """Problems have file, line and column; a stale base is refused with the newer revision."""
    async with shell_of(capsys) as (shell, _):
        await shell("budgets", "apply", str(file), "--yes")
        stale = await shell("budgets", "apply", str(file), "--yes", "--base", "7")
        assert stale.code == 4
        assert "revision 1 of the budgets is in force" in stale.err
        write(file, TEXT.replace("limit", "limits"))
        broken = await shell("budgets", "apply", str(file), "--yes")
        assert broken.code == 4
        assert f"{file}:3:5: budgets[0].limits: unknown key 'limits'" in broken.err
        several = await shell("budgets", "apply", str(file), str(file), "--yes")
        assert several.code == 1
        assert "one file has all budgets" in several.err


async def test_a_served_rm_is_not_released(capsys: pytest.CaptureFixture[str]) -> None:
    """Only an RM without a member is released; consent is requested."""
    async with shell_of(capsys) as (shell, shim):
        await shim.register()
        refused = await shell("budgets", "release", "rm", "--yes")
        assert refused.code == 4
        assert "RM rm is registered here" in refused.err
        done = await shell("budgets", "release", "old", "--yes")
        assert done.err.splitlines() == [
            "what RM old holds of budgets is to be free for others",
            "RM old released: it held something of 0 budgets",
        ]


def test_an_rm_of_another_member_has_its_slice() -> None:
    """The usage of an RM is reported by its member only; slice, want and overdraft by every member."""
    budget = Budget(name="b", limit={"gpu": 4}, used={"gpu": 1}, unassigned={"gpu": -1}, sliced=True)
    budget.holdings.append(BudgetHolding(rm_id="far", slice={"gpu": 3}, overdraft={"gpu": 1}))
    rows = [[column.cell(row) for column in BUDGETS.columns] for row in BUDGETS.rows(budget)]
    assert rows == [
        ["b", "-", "gpu=4", "-", "gpu=1", "gpu=-1", "-", "-"],
        ["b", "far", "-", "gpu=3", "?", "-", "-", "gpu=1"],
    ]

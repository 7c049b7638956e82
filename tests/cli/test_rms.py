"""`licorne rms` against a running server."""

from pathlib import Path

import pytest

from support.peers.shim import RawSession, Shim, connected, hang_up, serving
from support.peers.town import Shell


async def test_a_disconnected_rm_can_be_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    """Each RM has a line; a connected one is kept, and a disconnected one can be forgotten."""
    async with serving() as server, connected(server) as channel:
        shell = Shell(server.grpc_address, capsys)
        assert (await shell("rms", "-o", "json")).json == {"rms": []}
        await Shim(channel, "idle").register()
        call, _ = await RawSession(channel, "busy").begin()
        result = await shell("rms")
        assert [[*line[:2], *line[4:8]] for line in result.rows] == [
            ["RM", "STATE", "OVER", "PARTITIONS", "QUEUES", "NODES"],
            ["busy", "connected", "session", "1", result.rows[1][6], "0"],
            ["idle", "gone", "si.v1", "1", result.rows[2][6], "0"],
        ]
        shown = (await shell("rms", "-o", "json")).json["rms"]
        assert [(rm["rmId"], rm["connected"]) for rm in shown] == [("busy", True), ("idle", False)]
        refused = await shell("rms", "forget", "busy", "--yes")
        assert refused.code == 4
        assert "RM busy is connected" in refused.err
        await hang_up(server, call, rm_id="busy")
        for name in ("idle", "busy"):
            planned = await shell("rms", "forget", name, "--force")
            assert planned.code == 1
            plan, refusal = planned.err.splitlines()
            assert plan.startswith(f"RM {name}, gone for ")
            assert plan.endswith("1 partition, 0 nodes, 0 applications, 0 asks and allocations")
            assert refusal == "licorne: nothing was done: say --yes to do it"
            assert [row[0] for row in (await shell("rms", name)).rows] == ["RM", name]
            result = await shell("rms", "forget", "--force", "--yes", name)
            assert (result.code, result.err.splitlines()[1:]) == (0, [f"RM {name} forgotten"])
        assert (await shell("rms", "forget", "busy", "--yes")).code == 3
        assert (await shell("rms", "-o", "json")).json == {"rms": []}


async def test_an_rm_of_the_state_directory_is_forgotten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """After a restart, the stored configuration of an RM can be forgotten before it connects."""
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel, "old").register()
        await Shim(channel, "new").register()
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        shell = Shell(server.grpc_address, capsys)
        await Shim(channel, "new").register()
        planned = await shell("rms", "forget", "old")
        assert planned.code == 1
        sentence = "RM old, which is not registered, is to be forgotten: 1 revision of its configuration"
        assert planned.err.splitlines()[0] == sentence
        forgotten = await shell("rms", "forget", "old", "--yes")
        assert (forgotten.code, forgotten.err) == (0, f"{sentence}\nRM old forgotten\n")
        again = await shell("rms", "forget", "old", "--yes")
        assert (again.code, again.err) == (3, 'licorne: no RM "old"; there are: new\n')
    async with serving(state_dir=tmp_path) as server:
        assert (await Shell(server.grpc_address, capsys)("config", "history", "old")).code == 3

"""Contradictory arguments, and cases that operators meet rarely."""

import asyncio

import pytest

from licorne import Rejected
from licorne_server.testing import FakeRM, serve
from support.patience import PATIENCE
from support.peers.town import Shell

HUGE = 2**63
ONE = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            properties: {application.unschedasks.backoff: "1"}
            maxapplications: %d
            limits: [{limit: all, users: ["*"], maxapplications: %d}]
"""


async def test_the_largest_number_of_applications_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command prints the largest number of applications that a configuration may have."""
    async with serve(ONE % (HUGE, HUGE)) as served, FakeRM(served.target) as rm:
        await rm.submit("job", queue="root.a", user="ann")
        shell = Shell(served.target, capsys)
        queues = (await shell("queues", "root.a", "-o", "json")).json["queues"]
        assert queues[0]["maxApplications"] == HUGE
        assert str(HUGE) in (await shell("queues")).out
        assert str(HUGE) in (await shell("users")).out


async def test_a_rejected_application_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command reports a rejected application with the reason."""
    async with serve(ONE % (1, 1)) as served, FakeRM(served.target) as rm:
        with pytest.raises(Rejected):
            await rm.submit("job", queue="root.nosuch", user="ann")
        shell = Shell(served.target, capsys)
        explained = await shell("explain", "job")
        assert explained.code == 3
        assert "application job is Rejected: " in explained.err
        heads, line = (await shell("apps", "--state", "rejected")).rows
        assert heads[-1] == "REASON"
        reason = explained.err.partition("Rejected: ")[2].split()
        assert line[-len(reason) :] == reason


async def test_explain_has_the_end_of_a_back_off(capsys: pytest.CaptureFixture[str]) -> None:
    """The explanation of an application in a back-off has the time of its end."""
    async with serve(ONE % (1, 1)) as served, FakeRM(served.target) as rm:
        await rm.add_nodes(2, vcore=1_000)
        await rm.submit("job", queue="root.a", user="ann")
        await rm.ask("job", 3, vcore=600)
        await rm.ask("job", 1, prefix="small", vcore=100)
        shell = Shell(served.target, capsys)
        async with asyncio.timeout(PATIENCE):
            while "backs off" not in (explained := await shell("explain", "job")).out:
                pass
        assert "job backs off: 1 ask found no node\nuntil 20" in explained.out
        assert "backs off until 20" in (await shell("apps", "job")).out

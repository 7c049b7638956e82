"""Arguments that make no sense, and cases that operators meet seldom."""

import asyncio

import pytest

from licorne import Rejected
from licorne_cli.commands import main
from licorne_server.testing import FakeRM, serve
from support.peers.shim import PATIENCE
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("top", "--count", "0"), "--count: 0 is not at least 1"),
        (("top", "--count", "-1"), "--count: -1 is not at least 1"),
        (("top", "--interval", "-1"), "--interval: -1 is not a time of at least 0 s"),
        (("queues", "--timeout", "0"), "--timeout: 0 is not a time of at least 0.01 s"),
        (("nodes", "--timeout", "nan"), "--timeout: nan is not a time of at least 0.01 s"),
        (("events", "--timeout", "soon"), "--timeout: invalid seconds value: 'soon'"),
        (("fake-rm", "--round", "0"), "--round: 0 is not a time of at least 1 s"),
        (("fake-rm", "--round", "0.00001"), "--round: 0.00001 is not a time of at least 1 s"),
        (("bench", "idle", "--seconds", "-5"), "--seconds: -5 is not a time of at least 0.1 s"),
        (("bench", "shim", "--batch", "0"), "--batch: 0 is not at least 1"),
        (("bench", "predicates", "--refuse", "101"), "--refuse: 101 is not between 0 and 100"),
        (("bench", "predicates", "--refuse", "few"), "--refuse: invalid percent value: 'few'"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A usage error that names the argument and the value, and nothing is done."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 1
    assert f": argument {said}\n" in capsys.readouterr().err


async def test_any_number_of_applications_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The largest that a configuration may say comes through to every command."""
    async with serve(ONE % (HUGE, HUGE)) as served, FakeRM(served.target) as rm:
        await rm.submit("job", queue="root.a", user="ann")
        shell = Shell(served.target, capsys)
        queues = (await shell("queues", "root.a", "-o", "json")).json["queues"]
        assert queues[0]["maxApplications"] == HUGE
        assert str(HUGE) in (await shell("queues")).out
        assert str(HUGE) in (await shell("users")).out


async def test_a_rejected_application_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said to be rejected, and why, wherever somebody asks for it."""
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


async def test_a_rest_has_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Who asks for an application that backs off is told until when."""
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

"""The demo from its first line to its last."""

import subprocess
import sys

import pytest

from licorne_server.lab.demo.command import LONGEST_SECONDS
from support.patience import PATIENCE
from support.terminal import ORDINARY, Tty


@pytest.mark.slow
def test_the_demo_prints_a_summary() -> None:
    """Without a terminal the demo prints at most a line a second, the summary, and an explained ask.

    The summary includes a completed gang, and a guarantee that preemption enforced.
    """
    done = subprocess.run(
        [sys.executable, "-m", "licorne_server", "demo", "--seconds", "6"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "how much of the cores of each cluster is allocated" in done.stderr
    assert "\x1b" not in done.stdout
    live, _, end = done.stdout.partition("\nafter ")
    assert 1 <= len(live.splitlines()) <= 8
    assert "batch " in live
    assert "services " in live
    assert "research " in live
    assert "batch, services, research" in end
    assert "licorne explain nightly-0001, asked while the RMs were at work:" in end
    assert "nightly-0001/nightly-0001-" in end
    assert "BLOCK" in end
    assert "QUEUE_MAX_EXCEEDED" in end
    assert "root.nightly" in end
    allocations = end.partition("allocations")[2].split()[0]
    assert int(allocations.strip(",").replace(",", "")) > 100
    assert "16 placeholders came together, 16 allocations took their places" in end
    taken_back = "root.shared.owner got 15 allocations that it is guaranteed"
    assert f"{taken_back}: 15 of root.shared.borrower were stopped for them" in end


@pytest.mark.slow
async def test_the_demo_may_be_ended_early() -> None:
    """On a terminal the demo prints its steps, then a screen with keys; its summary is correct."""
    async with Tty("demo", "--seconds", "25") as tty:
        await tty.shows("licorne demo, ")
        lines = await tty.shows("q quit ? help")
        assert "q quit ? help" in lines[-1]
        assert "a real server schedules three fake resource managers" in tty.output
        await tty.shows("research")
        tty.press("q")
        assert await tty.ended() == 0
        assert tty.is_as_before()
    summary = tty.output.rpartition(ORDINARY)[2]
    assert "of 25: it was ended early" in summary
    assert "wait at the end" in summary


def test_the_demo_takes_less_than_half_a_minute() -> None:
    """The demo ends by itself in less than half a minute."""
    assert LONGEST_SECONDS < 30

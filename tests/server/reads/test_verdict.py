"""The verdict on a server: settling, rights, and several members."""

from collections.abc import Iterable

import pytest

from licorne.v1 import state_pb2 as pb
from licorne_server.reads.verdict import (
    MOST_OF_CONCERN,
    SETTLE_SECONDS,
    Finding,
    Severity,
    Verdicts,
    health_message,
    is_live,
    is_ready,
    merged_health,
    note_silent,
)

DEGRADED, DOWN = Severity.DEGRADED, Severity.DOWN


def concluded(verdicts: Verdicts, found: Iterable[Finding], now: float) -> list[Finding]:
    """The next verdict, without its pauses."""
    return [one for one in verdicts.concluded(found, now) if one is not None]


def test_a_finding_that_worsens_keeps_its_age() -> None:
    """A finding that worsens does not settle again; it ends with the first check that does not find it."""
    verdicts = Verdicts()
    concluded(verdicts, [Finding(DEGRADED, "store", "the store does not answer")], 100.0)
    [worse] = concluded(verdicts, [Finding(DOWN, "store", "nothing is scheduled")], 100.0 + SETTLE_SECONDS)
    assert (worse.severity, worse.since) == (DOWN, 100.0)
    assert concluded(verdicts, [], 200.0) == []
    [again] = concluded(verdicts, [Finding(DOWN, "store", "nothing is scheduled")], 300.0)
    assert (again.severity, again.since) == (Severity.OK, 300.0)


def test_each_rm_reads_its_own_findings() -> None:
    """Findings of other RMs are never counted among those that a caller may see."""
    rms = [f"rm{number:03}" for number in range(2 * MOST_OF_CONCERN)]
    found = concluded(
        Verdicts(), [Finding(DEGRADED, "rm", f"{rm} is not connected", rm, rm, 1.0) for rm in rms], 100.0
    )
    for rm in (rms[0], rms[-1]):
        own = health_message(found, lambda _: True, rm, "", 100.0)
        assert [one.name for one in own.findings] == [rm]
        seen = health_message(found, rm.__eq__, "", "", 100.0)
        assert [one.name for one in seen.findings] == [rm]
    every = health_message(found, lambda _: True, "", "", 100.0)
    assert len(every.findings) == MOST_OF_CONCERN + 1
    assert f"{MOST_OF_CONCERN} more of this kind" in [one.text for one in every.findings]


def test_the_worst_finding_of_several_members_is_shown() -> None:
    """A member with a living lease does not hide that another schedules nothing."""
    said = [
        pb.GetHealthResponse(findings=[Finding(severity, "store", text, since=since).message()])
        for severity, text, since in ((DEGRADED, "mild", 1.0), (DOWN, "bad", 2.0), (Severity.OK, "new", 3.0))
    ]
    for answers in (said, said[::-1]):
        whole = merged_health(pb.GetHealthRequest(), answers)
        assert ([one.text for one in whole.findings], whole.severity) == (["bad"], "down")


@pytest.mark.parametrize(
    ("concern", "severity", "live", "ready"),
    [
        ("server", DOWN, False, False),
        ("server", DEGRADED, True, False),
        ("store", DOWN, True, True),
    ],
)
def test_probes_depend_on_findings_about_the_server(
    concern: str, severity: Severity, live: bool, ready: bool
) -> None:
    """A restart helps a server that is down, another server one that drains; neither helps the store."""
    found = [Finding(severity, concern, "why")]
    assert (is_live(found), is_ready(found)) == (live, ready)


def test_a_silent_member_is_named_once() -> None:
    """A silent member that another member has already reported is not reported again."""
    known = Finding(DEGRADED, "member", "member a is gone", "a").message()
    whole = pb.GetHealthResponse(findings=[known], missing_members=["a", "b"])
    note_silent(whole)
    assert [one.text for one in whole.findings] == ["member a is gone", "member b does not answer"]

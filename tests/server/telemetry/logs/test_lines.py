"""Log lines: JSON in ASCII, bounded in length and rate, without failures for callers."""

import contextlib
import json
import logging
from typing import Any

import pytest
import structlog

from licorne_server.process.lost_lines import Drops, Reason
from licorne_server.telemetry.logs.levels import AUDIT, Levels
from licorne_server.telemetry.logs.lines import (
    FOREIGN,
    MAX_CAUSES,
    MAX_KINDS,
    MAX_LINE,
    MAX_TEXT,
    OF_ALL,
    OF_ONE,
    OWN,
    Allowance,
    Limits,
    Lines,
    rendered,
)
from licorne_server.telemetry.logs.stderr import Strays

FORGED = 'x\r\n{"event": "registered"}\x1b[31m\x00\x7f\x85\u2028\u2029\u202e\u2066\ud800'


class Unprintable:
    """A value that cannot be converted to text."""

    def __repr__(self) -> str:
        raise RuntimeError("planted")


@pytest.fixture
def drops() -> Drops:
    """Counts without drops."""
    return Drops()


@pytest.fixture
def lines(drops: Drops) -> Lines:
    """Lines whose drops are counted."""
    return Lines(drops)


def test_texts_of_peers_stay_inside_their_line() -> None:
    """Line breaks, control characters and characters that change the direction of text are escaped."""
    line = rendered({"event": "e", "text": FORGED, FORGED: 1})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {"event": "e", "text": FORGED, FORGED: 1}


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_000_000,
        "\u202e" * 1_000_000,
        ["\u202e"] * 1_000_000,
        ["x" * 1000] * 1000,
        {f"key {number}": "x" * 1000 for number in range(1000)},
        [[[[[[[["x" * 10_000] * 9] * 9] * 9] * 9] * 9] * 9] * 9],
        {"x" * 100_000: 1},
        10**4000,
        object(),
    ],
    ids=["long", "escaped", "many", "list", "mapping", "deep", "key", "number", "object"],
)
def test_no_line_is_longer_than_the_limit(value: object) -> None:
    """Every line is bounded, and keeps its event."""
    line = rendered({"value": value, "more": value, "level": "info", "event": "e"})
    assert len(line) <= MAX_LINE
    assert list(json.loads(line).items())[:2] == [("event", "e"), ("level", "info")]


def test_a_short_line_is_complete() -> None:
    """A line within the bound is not cut."""
    entry = {"event": "e", "text": "x" * MAX_TEXT, "items": list(range(200)), "no": None, "f": 0.5}
    assert json.loads(rendered(entry)) == entry


def test_a_traceback_has_no_values_of_variables(lines: Lines) -> None:
    """Tracebacks do not contain values of variables, which may have texts of RMs."""

    def fail(secret: str) -> None:
        raise RuntimeError(f"the length is {len(secret)}")

    with pytest.raises(RuntimeError) as failure:
        fail("a secret of an RM")
    line = lines(None, "error", {"event": "e", "exc_info": failure.value})
    [trace] = json.loads(line)["exception"]
    assert trace["exc_value"] == "the length is 17"
    assert [frame["name"] for frame in trace["frames"]][-1] == "fail"
    assert "a secret of an RM" not in line


def test_a_value_without_text_drops_its_line_only(lines: Lines, drops: Drops) -> None:
    """A line that cannot be converted is counted as dropped, and the caller continues."""
    with pytest.raises(structlog.DropEvent):
        lines(None, "info", {"event": "e", "value": Unprintable()})
    assert drops.totals()["unprintable"] == 1
    assert lines.foreign("kind", "info", "e", value=Unprintable()) == ""
    assert drops.totals()["unprintable"] == 2


def test_every_kind_has_its_own_allowance(lines: Lines, drops: Drops) -> None:
    """Excess lines of one kind are dropped and counted; lines of other kinds are written."""
    said = [lines.foreign("loud", "error", "e") for _ in range(FOREIGN.burst + 1000)]
    assert all(said[: FOREIGN.burst])
    assert not all(said)
    assert lines.foreign("quiet", "error", "e")
    [dropped] = drops.take_unlogged()
    assert dropped == ("loud", Reason.RATE, said.count(""))
    assert drops.totals()["rate"] == said.count("")
    told = json.loads(lines.of_drops(dropped))
    about = {"event": "log lines dropped", "kind": "loud", "reason": "rate"}
    assert told.items() >= {**about, "number": said.count("")}.items()


def test_own_lines_are_limited_for_each_event(lines: Lines, drops: Drops) -> None:
    """The server's own lines have a larger allowance for each event, which is bounded, too."""
    for _ in range(OWN.burst):
        assert lines(None, "info", {"event": "stream opened"})
    while not drops.totals()["rate"]:
        with contextlib.suppress(structlog.DropEvent):
            lines(None, "info", {"event": "stream opened"})
    assert lines(None, "info", {"event": "stream closed"})
    assert [(d.kind, d.reason) for d in drops.take_unlogged()] == [("stream opened", Reason.RATE)]


def test_an_allowance_refills_with_time() -> None:
    """An allowance refills with time, up to the burst."""
    now = 0.0
    limits = Limits(lambda: now)
    allowance = Allowance(burst=3, per_second=0.5)

    def admitted() -> int:
        return sum(limits.admits("kind", allowance) for _ in range(10))

    assert admitted() == 3
    now = 4.0
    assert admitted() == 2
    now = 1e9
    assert admitted() == 3


def test_excess_kinds_share_an_allowance() -> None:
    """Beyond a number of kinds further ones share an allowance."""
    limits = Limits(lambda: 0.0)
    allowance = Allowance(burst=1, per_second=0.0)
    kinds = [limits.admits(f"kind {number}", allowance) for number in range(MAX_KINDS + 10)]
    assert kinds == [True] * (MAX_KINDS + 1) + [False] * 9


def written(lines: Lines, times: int, logger: Any = None, **entry: Any) -> int:
    """The number of lines written for these times."""
    count = 0
    for _ in range(times):
        with contextlib.suppress(structlog.DropEvent):
            count += bool(lines(logger, "info", {"event": "e", **entry}))
    return count


def test_each_rm_has_its_own_allowance(lines: Lines, drops: Drops) -> None:
    """Each RM, caller and host has a separate allowance for each event."""
    flood = 2 * OF_ONE.burst
    assert written(lines, flood, rm_id="loud") < flood
    assert written(lines, 10, rm_id="quiet") == 10
    assert written(lines, 10, rm_id="loud", event="another") == 10
    assert written(lines, flood, by="caller", rm_id="quiet") < flood
    assert written(lines, flood, peer="ipv4:10.0.0.1:5000") < flood
    assert written(lines, 1, peer="ipv4:10.0.0.1:5001") == 0
    assert written(lines, 10, peer="ipv4:10.0.0.2:5000") == 10
    assert written(lines, 10, rm_id="quiet") == 10
    assert drops.totals()["rate"] > 0


def test_lines_of_all_rms_are_bounded_together() -> None:
    """The lines of one kind are bounded for all RMs together."""
    limits = Limits(lambda: 0.0)
    admitted = sum(
        limits.admits_from(f"rm {number}", "kind", OF_ONE, OF_ALL)
        for number in range(OF_ALL.burst)
        for _ in range(2)
    )
    assert admitted == OF_ALL.burst
    assert limits.admits_from("rm 0", "another", OF_ONE, OF_ALL)


def test_excess_causes_share_an_allowance() -> None:
    """Beyond a number of causes further ones share an allowance, and quiet causes are dropped."""
    now = 0.0
    limits = Limits(lambda: now)
    one = Allowance(burst=2, per_second=1.0)

    def admitted(count: int) -> int:
        return sum(limits.admits_from(str(n), "kind", one, None) for n in range(count))

    assert admitted(MAX_CAUSES + 10) == MAX_CAUSES + one.burst
    now = 10.0
    assert limits.admits_from("one more", "kind", one, None)
    assert admitted(MAX_CAUSES - 1) == MAX_CAUSES - 1


def test_callers_have_separate_allowances_for_acts(lines: Lines) -> None:
    """Lines about acts of operators are limited for each caller separately."""
    audit = Levels().logger(AUDIT, print)
    assert audit.name == AUDIT
    flood = OWN.burst + 100
    assert written(lines, flood, audit, by="", peer="ipv4:10.0.0.1:5000") < flood
    assert written(lines, 10, audit, by="operator", peer="ipv4:10.0.0.1:5000") == 10


def test_invalid_records_of_libraries_are_no_failure(lines: Lines, drops: Drops) -> None:
    """Invalid arguments in a library's record cost only that line."""
    said: list[dict[str, Any]] = []
    strays = Strays(lines, lambda line: said.append(json.loads(line)))
    logger = logging.Logger("peer")
    logger.addHandler(strays)
    logger.error("%s\n%s", FORGED, 1)
    logger.error("%s %s", *["alone"])
    logger.warning("%s", Unprintable())
    assert [(line["text"], line["level"], line["logger"]) for line in said] == [
        (f"{FORGED}\n1", "error", "peer"),
        ("%s %s", "error", "peer"),
        ("%s", "warning", "peer"),
    ]
    assert {line["event"] for line in said} == {"said by a library"}

"""Levels of the server's loggers, changed while it runs."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import licorne_server
from licorne_server.telemetry.logs import levels, set_up
from licorne_server.telemetry.logs.levels import (
    AUDIT,
    COMMANDS,
    CONFIGURATIONS,
    GANGS,
    LOGGERS,
    PREDICATES,
    PREEMPTION,
    TURNS,
    Levels,
)

SOURCE = Path(licorne_server.__file__).parent


@pytest.fixture
def written() -> Iterator[list[str]]:
    """The written lines; structlog is restored after the test."""
    before = structlog.get_config()
    lines: list[str] = []
    set_up("info", write=lines.append)
    yield lines
    structlog.configure(**before)
    levels().begin("info")


def said(lines: list[str]) -> list[tuple[str, str]]:
    """The logger and event of each line."""
    return [(entry["logger"], entry["event"]) for entry in map(json.loads, lines)]


def test_the_most_specific_name_applies(written: list[str]) -> None:
    """A level applies to a logger and all below it, also to loggers in use."""
    stream = structlog.get_logger("core.http.stream")
    session = structlog.get_logger("core.session")

    def speak(when: str) -> None:
        for logger in (stream, session):
            logger.debug(f"debug {when}")
            logger.warning(f"warning {when}")

    speak("at first")
    levels().set("core", "error")
    levels().set("core.http", "debug")
    speak("then")
    levels().set("core", "")
    levels().set("core.http.stream", "error")
    speak("in the end")
    assert said(written) == [
        ("core.http.stream", "warning at first"),
        ("core.session", "warning at first"),
        ("core.http.stream", "debug then"),
        ("core.http.stream", "warning then"),
        ("core.session", "warning in the end"),
    ]


def test_a_name_does_not_apply_to_similar_names(written: list[str]) -> None:
    """`core.http` is not above `core.https`."""
    logger = structlog.get_logger("core.https")
    levels().set("core.http", "debug")
    logger.debug("not wanted")
    logger.exception("wanted", exc_info=False)
    assert said(written) == [("core.https", "wanted")]


def test_a_missing_logger_is_refused() -> None:
    """The refusal suggests a similar logger, or lists all."""
    known = Levels()
    assert known.problem("core.engine", "debug") is None
    assert known.problem("core.scheduler", "debug") is None, "it is above others"
    for typo, meant in (
        ("core.scheduler.turn", "core.scheduler.turns"),
        ("core.turns", "core.scheduler.turns"),
        ("core.enigne", "core.engine"),
        ("Scheduler", "core.scheduler"),
    ):
        text = f"logger {typo} does not exist: did you mean {meant}?"
        assert known.problem(typo, "debug") == ("logger", text)
    strange = known.problem("core.typo", "debug")
    assert strange is not None
    assert strange.text.startswith("logger core.typo does not exist; there are core.access, ")
    assert known.problem("core.typo", "") is not None
    foreign = known.problem("red", "debug")
    assert foreign == ("logger", "logger red is neither core nor below it, as core.engine is")


def test_lines_about_acts_are_written_at_any_level(written: list[str]) -> None:
    """Lines about acts of operators are written at every level, and the audit logger accepts no level."""
    audit = structlog.get_logger(AUDIT)
    for name in ("", "core", "core.admin"):
        levels().set(name, "error")
    audit.info("asked for")
    assert said(written) == [(AUDIT, "asked for")]
    problem = levels().problem(AUDIT, "error")
    assert problem == ("logger", f"logger {AUDIT} has no level: all its lines are written")


@pytest.mark.parametrize("stderr", ["closed", "none"])
def test_a_missing_stderr_is_no_failure(
    written: list[str], monkeypatch: pytest.MonkeyPatch, stderr: str
) -> None:
    """An embedded server continues if stderr cannot be written."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed if stderr == "closed" else None)
    set_up("info")
    structlog.get_logger("core.of_no_table").warning("said to nobody")
    assert written == []


def test_the_loggers_are_those_of_the_source() -> None:
    """The published loggers are those of the source."""
    call = 'get_logger("'
    parts = [part for path in SOURCE.rglob("*.py") for part in path.read_text().split(call)[1:]]
    named = {COMMANDS, CONFIGURATIONS, GANGS, PREDICATES, PREEMPTION, TURNS}
    assert {part.partition('"')[0] for part in parts} | named == set(LOGGERS)
    assert list(LOGGERS) == sorted(LOGGERS)


def level_of(known: Levels, name: str) -> str:
    """The lowest level that a logger writes."""
    return logging.getLevelName(known.threshold(name).number).lower()


def test_the_most_verbose_rm_counts() -> None:
    """The most verbose request of all RMs is in force, and ends with its RM."""
    known = Levels()
    known.begin("info")
    known.want("a", {"core.scheduler": "debug"})
    known.want("b", {"": "error", "core.scheduler.turns": "info"})
    assert level_of(known, TURNS) == "debug"
    assert level_of(known, "core.engine") == "info"
    known.want("b", {"": "debug", "core.scheduler": "error"})
    known.want("a", {})
    assert level_of(known, TURNS) == "info", "b's most specific word is `error`"
    assert level_of(known, "core.engine") == "debug"
    known.want("b", {})
    assert level_of(known, "core.engine") == "info"


def test_the_level_of_an_operator_overrides_rms() -> None:
    """An operator's level overrides requests of RMs, until it is reset."""
    known = Levels()
    known.begin("info")
    known.want("a", {"": "debug"})
    known.set("core.scheduler", "warning")
    assert level_of(known, TURNS) == "warning"
    assert level_of(known, "core.engine") == "debug"
    known.set("", "error")
    assert level_of(known, "core.engine") == "error"
    assert known.of_others() == "error"
    known.set("core.scheduler", "")
    known.set("", "")
    assert level_of(known, TURNS) == known.of_others() == "debug"


def test_requests_of_rms_apply_to_later_loggers(written: list[str]) -> None:
    """A request of an RM also applies to loggers that are used later."""
    levels().want("a", {"core": "debug"})
    try:
        structlog.get_logger("core.of_no_table").debug("wanted")
    finally:
        levels().want("a", {})
    structlog.get_logger("core.of_no_table").debug("not wanted")
    assert said(written) == [("core.of_no_table", "wanted")]

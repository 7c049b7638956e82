"""Levels of the server's own loggers, changed while it runs."""

import json
from collections.abc import Iterator

import pytest
import structlog

from licorne_server.logs import levels, set_up
from licorne_server.logs.levels import MAX_GIVEN, Levels


@pytest.fixture
def written() -> Iterator[list[str]]:
    """The lines that are written; structlog is as before when the test has ended."""
    before = structlog.get_config()
    lines: list[str] = []
    set_up("info", write=lines.append)
    yield lines
    structlog.configure(**before)
    levels().begin("info")


def said(lines: list[str]) -> list[tuple[str, str]]:
    """The logger and the event of each line."""
    return [(entry["logger"], entry["event"]) for entry in map(json.loads, lines)]


def test_the_most_specific_name_counts(written: list[str]) -> None:
    """A level is for a logger and all below it; a change is for loggers that speak already too."""
    stream = structlog.get_logger("licorne_server.http.stream")
    session = structlog.get_logger("licorne_server.services.session")

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


def test_a_name_is_not_for_others_that_begin_alike(written: list[str]) -> None:
    """`core.http` is not above `core.https`."""
    logger = structlog.get_logger("licorne_server.https")
    levels().set("core.http", "debug")
    logger.debug("not wanted")
    logger.exception("wanted", exc_info=False)
    assert said(written) == [("core.https", "wanted")]


def test_so_many_loggers_have_levels_of_their_own() -> None:
    """Beyond the bound another one is refused, and a known one can still be changed."""
    known = Levels()
    for number in range(MAX_GIVEN):
        assert known.problem(f"core.l{number}", "debug") is None
        known.set(f"core.l{number}", "debug")
    problem = known.problem("core.more", "debug")
    assert problem is not None
    assert problem.text == f"{MAX_GIVEN} loggers have levels of their own already"
    assert known.problem("core.l0", "info") is None
    assert known.problem("core.more", "") is None

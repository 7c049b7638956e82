"""Whatever bytes an RM sends, it receives an answer with a reason, and other RMs are unaffected."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from support.fuzz import corpus
from support.fuzz.corpus import TARGETS, How
from support.fuzz.peer import Broken
from support.fuzz.stage import MESSAGES, Stage, play
from support.wire.still import stillness

FILES = sorted(corpus.FOLDER.glob("*.txt"))
READING = "licorne.v1.State"
PLANS = "licorne.v1.Admin"
"""Plans are made on a deep copy of the core."""


@pytest.mark.pure
@pytest.mark.worlds(first=12_000_000, one_in=4, size=10)
def test_no_message_breaks_the_server_or_affects_another_rm(part: range) -> None:
    """Any message gets a typed answer, and the books of the other RM stay unchanged."""
    with stillness():
        sent = sum(play(seed) for seed in part)
    assert sent == len(part) * MESSAGES


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.pure] * (path.stem == PLANS), id=path.stem) for path in FILES],
)
def test_the_corpus_has_the_recorded_answers(path: Path, *, rewrite: bool) -> None:
    """A new server gives the recorded answers to each message of the corpus.

    Messages that only read, and refused calls, share a server.
    """
    entries = corpus.read(path)
    sharing = [entry for entry in entries if path.stem == READING or (is_refused(entry) and not rewrite)]
    with stillness():
        shared = iter(answered(sharing))
        played = [next(shared) if entry in sharing else answered([entry])[0] for entry in entries]
    if rewrite:
        corpus.write(path, played)
        entries = played
    text = path.read_text(encoding="utf-8")
    assert text == "\n".join(entry.text() for entry in played)
    assert played == entries


def is_refused(entry: corpus.Entry) -> bool:
    """True for a call that ends with an error."""
    return entry.target.how is How.CALL and "OK" not in entry.answers


def answered(entries: Sequence[corpus.Entry]) -> list[corpus.Entry]:
    """The entries with the answers of one new server to all of them."""
    stage = Stage()
    try:
        found = [entry.answered(stage.send(entry.target, entry.raw)) for entry in entries]
        stage.finish()
        return found
    finally:
        stage.close()


def test_the_corpus_has_messages_for_every_call() -> None:
    """Every call and every stream has a message with its answer."""
    assert {entry.target.name for entry in corpus.all_entries()} == set(TARGETS)


@pytest.mark.parametrize("raw", [b"", b"\0", b"\x0a" * 300, b"ab" + b"\xff" * 8 + b"c"])
def test_a_message_in_a_file_has_all_its_bytes(raw: bytes) -> None:
    """The bytes of a message are written to a corpus file as digits, and read back unchanged."""
    assert corpus.bytes_of(corpus.digits(raw).split()) == raw


def take_any_partition(patch: pytest.MonkeyPatch) -> None:
    """Let an RM find a partition of another RM by its name."""
    own = Rm.find
    known: dict[str, Partition] = {}

    def find(rm: Rm, name: str) -> Partition | None:
        known.update((partition.name, partition) for partition in rm.partitions.values())
        return own(rm, name) or known.get(name)

    patch.setattr(Rm, "find", find)


def foresee_no_bad_token(patch: pytest.MonkeyPatch) -> None:
    """Let a page token that is not a number cause an unexpected error."""
    patch.setattr("licorne_server.services.state.read_preemption_token", int)


def repeat_names_as_they_are(patch: pytest.MonkeyPatch) -> None:
    """Let texts of errors repeat control characters of a name."""
    patch.setattr("licorne_core.views.partitions.shown", str)


@pytest.mark.slow
@pytest.mark.parametrize(
    "slip",
    [take_any_partition, foresee_no_bad_token, repeat_names_as_they_are],
    ids=lambda slip: slip.__name__,
)
@pytest.mark.pure
def test_a_fault_of_the_server_is_detected(
    slip: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with invalid answers, or without isolation of RMs, fails the check."""
    slip(monkeypatch)
    with stillness(), pytest.raises(Broken):
        sum(play(seed) for seed in range(200))

"""One scrape of all workers, and their state in the health."""

from prometheus_client.parser import text_string_to_metric_families

from licorne_server.http.families import merged
from licorne_server.store.coordination.ownership import STATUS, Known, known_workers
from licorne_server.store.coordination.store import Snapshot
from licorne_server.store.documents.documents import Document
from licorne_server.store.documents.encoding import encode

ONE = """\
# HELP licorne_rms RMs that are registered.
# TYPE licorne_rms gauge
licorne_rms 3
# HELP licorne_turns_total Turns of scheduling.
# TYPE licorne_turns_total counter
licorne_turns_total 100.0
# HELP licorne_pending_asks Asks that wait.
# TYPE licorne_pending_asks gauge
licorne_pending_asks{rm="a rm",partition="default"} 7
"""
TWO = """\
# HELP licorne_pending_asks Asks that wait.
# TYPE licorne_pending_asks gauge
licorne_pending_asks{rm="b {of} \\"two\\"",partition="default"} 5
# HELP licorne_rms RMs that are registered.
# TYPE licorne_rms gauge
licorne_rms 1
# HELP licorne_seconds Times.
# TYPE licorne_seconds histogram
licorne_seconds_bucket{le="0.1"} 4
licorne_seconds_bucket{le="+Inf"} 5
licorne_seconds_sum 1.5
licorne_seconds_count 5
"""
KNOWN = [Known(1, "ready", 0, False), Known(2, "ready", 4, True), Known(3, "waiting", 9, True)]


def samples(text: str) -> dict[tuple[str, ...], float]:
    """All samples by name and labels, as Prometheus reads them."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_one_answer_has_the_samples_of_all_workers() -> None:
    """No sample is summed or lost, and a family has one heading with all its samples below."""
    text = "".join(merged({1: ONE, 2: TWO}, KNOWN[:2]))
    found = samples(text)
    assert found["licorne_rms", "worker=1"] == 3
    assert found["licorne_rms", "worker=2"] == 1
    assert found["licorne_turns_total", "worker=1"] == 100
    assert found["licorne_pending_asks", "partition=default", "rm=a rm", "worker=1"] == 7
    assert found["licorne_pending_asks", "partition=default", 'rm=b {of} "two"', "worker=2"] == 5
    assert found["licorne_seconds_bucket", "le=0.1", "worker=2"] == 4
    assert found["licorne_seconds_count", "worker=2"] == 5
    assert text.count("# HELP licorne_rms ") == text.count("# TYPE licorne_rms ") == 1
    assert len(found) == 3 + 6 + 2 * 3


def test_a_worker_without_an_answer_is_marked() -> None:
    """A worker that does not answer, or waits for its restart, is marked, without samples."""
    found = samples("".join(merged({1: ONE}, KNOWN)))
    assert [found["licorne_worker_scraped", f"worker={n}"] for n in (1, 2, 3)] == [1, 0, 0]
    assert [found["licorne_worker_looping", f"worker={n}"] for n in (1, 2, 3)] == [0, 1, 1]
    assert [found["licorne_worker_restarts_total", f"worker={n}"] for n in (1, 2, 3)] == [0, 4, 9]


def test_long_texts_are_merged_in_steps() -> None:
    """A step reads at most some hundred lines, so that a scrape delays no other task."""
    heading = "# HELP many Samples.\n# TYPE many gauge\n"
    text = heading + "".join(f'many{{n="{n}"}} 1\n' for n in range(10_000))
    pieces = list(merged({1: text, 2: text}, []))
    assert len(pieces) > 2 * 10_000 / 300
    assert max(piece.count("\n") for piece in pieces) < 300
    assert len(samples("".join(pieces))) == 20_000


def test_workers_read_the_document_of_the_supervisor() -> None:
    """The document has all states, and a server without a supervisor has no workers."""
    document = Document(value=encode(KNOWN), revision=1)
    assert known_workers(Snapshot(documents={STATUS: document})) == KNOWN
    assert known_workers(Snapshot()) == []

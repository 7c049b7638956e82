"""The recorded queues, and how long they are recorded."""

import pytest

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_server.reads.history import recorder as recording
from licorne_server.reads.history.places import MAX_ASKS, AskName
from licorne_server.reads.history.recorder import Recorder, step_of
from licorne_server.reads.history.tracks import MAX_RESOURCES, Track, TrackSpan
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload, victim
from support.core.driver import START, Driver

HERE = PartitionName("[rm1]default")
PEER = "token 1"


@pytest.fixture
def driver() -> Driver:
    """Queues of three sizes on one node."""
    driver = Driver()
    driver.do(
        register(config("[{name: big, resources: {max: {vcore: 6}}}, {name: small}, {name: none}]")),
        nodes(node("n1", vcore=10000, memory=100)),
        apps(app("one", "root.big"), app("two", "root.small")),
        asks(
            *(ask("one", f"a{n}", vcore=1000, memory=1) for n in range(8)),
            ask("two", "b", vcore=1000, memory=1),
        ),
    )
    return driver


def recorder_of(driver: Driver) -> Recorder:
    """A recorder without samples."""
    return Recorder(driver.views, lambda _: None, START)


def record(driver: Driver, recorder: Recorder, steps: int = 1) -> None:
    """Take samples of this number of steps of 5 s."""
    for _ in range(steps):
        list(recorder.record(driver.now))
        driver.wait(5.0)


def paths(recorder: Recorder) -> list[str]:
    """The recorded queues."""
    return [path for path, _ in recorder.of_partition(HERE)]


def values(track: Track, recorder: Recorder) -> list[float | None]:
    """The usage of vcore of a queue in the last hour."""
    return TrackSpan(track, recorder.step, 720, 1).of(track.used["vcore"])


def test_queues_are_recorded_without_viewers(driver: Driver) -> None:
    """Samples have usage, pending amounts, bounds, and the number of running applications."""
    recorder = recorder_of(driver)
    record(driver, recorder, 3)
    assert paths(recorder) == ["root", "root.big", "root.none", "root.small"]
    track = recorder.look(HERE, "root.big", driver.now, PEER)
    span = TrackSpan(track, recorder.step, 720, 1)
    assert span.of(track.used["vcore"]) == [6000] * 3
    assert span.of(track.waiting["vcore"]) == [2000] * 3
    assert span.of_bounds(track.max, "vcore") == [6000] * 3
    assert span.of_bounds(track.guaranteed, "vcore") == [None] * 3
    assert span.of(track.applications) == [1] * 3
    root = recorder.look(HERE, "root", driver.now, PEER)
    assert root.nodes is not None
    assert [TrackSpan(root, recorder.step, 720, 1).of(line)[-1] for line in root.fill] == [
        *[0] * 3,
        1,
        *[0] * 6,
    ]


def test_the_largest_and_the_viewed_queues_are_recorded(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the largest queues, a viewed queue is recorded from the first view on."""
    monkeypatch.setattr(recording, "LARGEST", 2)
    recorder = recorder_of(driver)
    record(driver, recorder, 2)
    assert paths(recorder) == ["root", "root.big"]
    track = recorder.look(HERE, "root.small", driver.now, PEER)
    record(driver, recorder, 2)
    assert paths(recorder) == ["root", "root.big", "root.small"]
    assert values(track, recorder) == [1000, 1000]
    with pytest.raises(NotFound, match=r"root\.nowhere"):
        recorder.look(HERE, "root.nowhere", driver.now, PEER)


@pytest.mark.parametrize("bound", ["MAX_TRACKS", "MAX_BYTES"])
def test_records_are_bounded(driver: Driver, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """Records are bounded in number and bytes: the largest queues are kept first, then viewed ones."""
    monkeypatch.setattr(recording, "LARGEST", 2)
    recorder = recorder_of(driver)
    record(driver, recorder)
    for path in ("root.small", "root.none"):
        recorder.look(HERE, path, driver.now, PEER)
        record(driver, recorder)
    assert paths(recorder) == ["root", "root.big", "root.none", "root.small"]
    sizes = {path: track.size for path, track in recorder.of_partition(HERE)}
    most = 3 if bound == "MAX_TRACKS" else sum(sizes.values()) - 1
    monkeypatch.setattr(recording, bound, most)
    record(driver, recorder, 13)
    assert paths(recorder) == ["root", "root.big", "root.none"]
    assert recorder.size <= recording.MAX_BYTES


def test_peers_have_separate_records(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that views too many queues loses its own records, the oldest view first."""
    monkeypatch.setattr(recording, "LARGEST", 1)
    monkeypatch.setattr(recording, "LOOKS_OF_PEER", 1)
    recorder = recorder_of(driver)
    record(driver, recorder)
    recorder.look(HERE, "root.big", driver.now, "token 2")
    for path in ("root.small", "root.none", "root"):
        recorder.look(HERE, path, driver.now, PEER)
        driver.wait(1.0)
    assert paths(recorder) == ["root", "root.big", "root.none"]


def test_the_resources_of_a_queue_are_bounded() -> None:
    """Only the first resources of a queue are recorded."""
    driver = Driver()
    many = {f"res{n}": 1 for n in range(MAX_RESOURCES + 3)}
    driver.do(register(config("[{name: a}]")), nodes(node("n1", size=many)), apps(app("one", "root.a")))
    driver.do(asks(ask("one", "k", size=many)))
    recorder = recorder_of(driver)
    record(driver, recorder)
    assert len(recorder.look(HERE, "root.a", driver.now, PEER).used) == MAX_RESOURCES


def test_a_recreated_queue_has_a_gap(driver: Driver) -> None:
    """The earlier values of a removed and recreated queue are kept, and the time between has no values."""
    recorder = recorder_of(driver)
    record(driver, recorder, 2)
    track = recorder.look(HERE, "root.none", driver.now, PEER)
    driver.do(reload(config("[{name: big}, {name: small}]")))
    driver.wait(60.0)
    record(driver, recorder, 2)
    driver.do(reload(config("[{name: big}, {name: small}, {name: none}]")))
    record(driver, recorder, 1)
    span = TrackSpan(track, recorder.step, 720, 1)
    assert span.of(track.applications) == [0, 0, *[None] * 14, 0]
    driver.do(reload(config("[{name: big}, {name: small}]")))
    driver.wait(86_500.0)
    record(driver, recorder)
    assert "root.none" not in paths(recorder)


def test_a_stopped_clock_leaves_a_gap(driver: Driver) -> None:
    """Steps without samples have no values; a repeated step has one sample."""
    recorder = recorder_of(driver)
    record(driver, recorder, 2)
    driver.wait(20.0)
    record(driver, recorder)
    list(recorder.record(driver.now - 5.0))
    track = recorder.look(HERE, "root.big", driver.now, PEER)
    assert values(track, recorder) == [6000, 6000, None, None, None, None, 6000]


def test_victims_are_counted_in_their_queues_and_above(driver: Driver) -> None:
    """A victim counts once, in the step of the request to stop; earlier victims do not count."""
    ledger = driver.scheduler.partitions[HERE].ledger
    driver.do(reload(config("[{name: big}, {name: low}]")))
    ledger.note(victim("before"))
    recorder = recorder_of(driver)
    record(driver, recorder, 2)
    ledger.note(victim("v1"))
    ledger.note(victim("v2"))
    record(driver, recorder, 2)
    for path in ("root", "root.low"):
        track = recorder.look(HERE, path, driver.now, PEER)
        assert TrackSpan(track, recorder.step, 720, 1).of(track.stopped) == [0, 0, 2, 0]
    assert recorder.stopped_in_an_hour(HERE) == 2
    record(driver, recorder, 720)
    assert recorder.stopped_in_an_hour(HERE) == 0


def test_viewed_asks_are_recorded(driver: Driver) -> None:
    """Viewed asks are recorded while they wait, for an hour after the last view, up to a number."""
    recorder = recorder_of(driver)
    name = AskName(HERE, AppId("one"), AllocationKey("a7"))
    assert recorder.places.look(name, driver.now, PEER) == []
    record(driver, recorder, 2)
    found = recorder.places.look(name, driver.now, PEER)
    assert [(place.asks, place.applications, place.code) for place in found] == [
        (1, 0, "QUEUE_MAX_EXCEEDED")
    ] * 2
    for number in range(MAX_ASKS):
        other = AskName(HERE, AppId("one"), AllocationKey(f"x{number}"))
        recorder.places.look(other, driver.now, "token 2")
    assert recorder.places.look(name, driver.now, PEER) == found, "another peer's asks take no place of it"
    for number in range(MAX_ASKS):
        recorder.places.look(
            AskName(HERE, AppId("one"), AllocationKey(f"x{number}")), driver.now, f"p{number}"
        )
    assert recorder.places.look(name, driver.now, PEER) == []
    driver.wait(3_700.0)
    record(driver, recorder)
    assert recorder.places.look(name, driver.now, PEER) == []


def test_samples_are_taken_in_steps(driver: Driver) -> None:
    """Samples are taken in steps, so that the caller may pause after each queue."""
    recorder = recorder_of(driver)
    assert sum(1 for _ in recorder.record(driver.now)) >= 4
    assert recorder.step == step_of(driver.now)
    assert list(recorder.record(driver.now)) == []


def test_tracks_are_stored_by_path(driver: Driver) -> None:
    """Tracks are stored by partition and path."""
    recorder = recorder_of(driver)
    driver.do(register(config("[{name: big}]"), "rm2"))
    record(driver, recorder)
    assert [path for path, _ in recorder.of_partition(PartitionName("[rm2]default"))] == [
        QueuePath("root"),
        QueuePath("root.big"),
    ]

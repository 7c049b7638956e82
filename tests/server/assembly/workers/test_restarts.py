"""The back-off of a worker's restarts."""

from licorne_server.assembly.workers.worker import HEALTHY, HOPELESS, LOOP, MOST, Restarts


def failed(restarts: Restarts, times: int, now: float = 0.0) -> list[float]:
    """The waits after this number of failures, all at the time `now`."""
    return [restarts.ended(now) for _ in range(times)]


def looping(restarts: Restarts, now: float) -> bool:
    """True if the worker counts as restarting in a loop at that time."""
    restarts.look(now)
    return restarts.looping


def test_waits_between_restarts_double() -> None:
    """The first restart is immediate; the waits before later ones double up to a bound."""
    restarts = Restarts()
    assert failed(restarts, 5) == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert failed(restarts, 4) == [8.0, 16.0, MOST, MOST]
    assert failed(restarts, 5_000)[-1] == MOST
    assert restarts.count == 5_009


def test_only_time_of_service_resets_failures() -> None:
    """A worker that serves for a moment and fails again is in a loop."""
    restarts = Restarts()
    for now in range(LOOP):
        restarts.ready(now)
        restarts.ended(now + 0.5)
    restarts.ready(100.0)
    assert [looping(restarts, now) for now in (100.0, 99.0 + HEALTHY, 100.0 + HEALTHY)] == [True, True, False]
    assert restarts.ended(1_000.0) == 0.0
    assert restarts.count == LOOP + 1


def test_the_supervisor_continues_while_a_worker_serves() -> None:
    """The supervisor does not end while one worker serves, however often others have failed."""
    restarts = Restarts()
    said = []
    for _ in range(HOPELESS):
        said.append(restarts.hopeless)
        restarts.ended(0.0)
    said.append(restarts.hopeless)
    restarts.ready(1.0)
    said.append(restarts.hopeless)
    restarts.ended(2.0)
    said.append(restarts.hopeless)
    assert said == [*[False] * HOPELESS, True, False, True]

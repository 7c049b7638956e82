"""The back-off of a worker's restarts."""

from licorne_server.assembly.workers.worker import HEALTHY, HOPELESS, LOOP, MOST, Restarts


def failed(restarts: Restarts, times: int, now: float = 0.0) -> list[float]:
    """The waits after this number of failures, each at the time `now`."""
    return [restarts.ended(now) for _ in range(times)]


def looping(restarts: Restarts, now: float) -> bool:
    """True if the worker restarts in a loop at that time."""
    restarts.look(now)
    return restarts.looping


def test_a_first_restart_is_at_once_and_further_ones_wait_ever_longer() -> None:
    """The waits double up to a bound, so that a failing worker does not occupy a core."""
    restarts = Restarts()
    assert failed(restarts, 5) == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert failed(restarts, 4) == [8.0, 16.0, MOST, MOST]
    assert failed(restarts, 5_000)[-1] == MOST
    assert restarts.count == 5_009


def test_time_of_service_forgives_failures_and_a_start_alone_does_not() -> None:
    """A worker that serves for a moment and fails again is in a loop all the same."""
    restarts = Restarts()
    for now in range(LOOP):
        restarts.ready(now)
        restarts.ended(now + 0.5)
    restarts.ready(100.0)
    assert [looping(restarts, now) for now in (100.0, 99.0 + HEALTHY, 100.0 + HEALTHY)] == [True, True, False]
    assert restarts.ended(1_000.0) == 0.0
    assert restarts.count == LOOP + 1


def test_a_worker_that_serves_is_not_hopeless() -> None:
    """However often it has failed: while a worker serves, the supervisor continues."""
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

"""Waits between tries."""

from licorne import RetryConfig
from licorne.channel import LONGEST, Backoff


def highest(_: float, ceiling: float) -> float:
    """The longest wait that the jitter allows."""
    return ceiling


def waits(backoff: Backoff, count: int) -> list[float]:
    """The waits after this number of consecutive failures."""
    return [round(backoff.next(), 3) for _ in range(count)]


def test_the_ceiling_doubles_up_to_the_maximum() -> None:
    """The ceilings of consecutive waits are 3/4 of 0.1, 0.2, 0.4 ... seconds, up to a maximum."""
    backoff = Backoff(RetryConfig(initial=0.1, maximum=1.0), highest)
    assert waits(backoff, 6) == [0.075, 0.15, 0.3, 0.6, 0.75, 0.75]


def test_the_longest_wait() -> None:
    """However long a server is down, the wait that is in progress at its return takes at most 1.5 s."""
    backoff = Backoff(RetryConfig(), highest)
    assert max(waits(backoff, 1000)) == 1.5


def test_jitter_is_full() -> None:
    """A wait is between zero and its ceiling, so that the tries of many clients spread."""
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, round(high, 3)))
        return low

    backoff = Backoff(RetryConfig(), uniform)
    backoff.next()
    backoff.next()
    assert bounds == [(0.0, 0.075), (0.0, 0.15)]


def test_a_welcome_starts_over_unless_its_stream_is_short() -> None:
    """A stream of two seconds resets the ceiling; one that is lost sooner counts as a failure."""
    backoff = Backoff(RetryConfig(initial=0.1), highest)
    assert waits(backoff, 1) == [0.075]
    backoff.lasted(1.9)
    assert waits(backoff, 1) == [0.15]
    backoff.lasted(2.0)
    assert waits(backoff, 1) == [0.075]


def test_a_server_without_room_is_called_less_often() -> None:
    """The ceiling of a server without room doubles beyond the maximum, until the server is unavailable."""
    backoff = Backoff(RetryConfig(initial=1.0, maximum=2.0, exhausted=30.0), highest)
    assert [backoff.next(exhausted=True) for _ in range(7)] == [0.75, 1.5, 3, 6, 12, 22.5, 22.5]
    assert waits(backoff, 1) == [1.5]


def test_a_wait_requested_by_the_server_is_kept() -> None:
    """The requested wait is never shortened, and extended by up to half; a wait of weeks is ignored."""
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return low

    assert Backoff(RetryConfig(), uniform).told(40.0) == 40.0
    assert Backoff(RetryConfig(), uniform).told(4_000_000.0) == LONGEST
    assert bounds == [(40.0, 60.0), (300.0, 450.0)]

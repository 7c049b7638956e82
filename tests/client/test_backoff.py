"""Waiting between tries."""

from licorne.backoff import Backoff


def highest(_: float, ceiling: float) -> float:
    """The longest wait that the jitter allows."""
    return ceiling


def test_ceiling_doubles_up_to_the_maximum() -> None:
    """Failures in a row wait below 0.1, 0.2, 0.4 ... seconds, and never above the maximum."""
    backoff = Backoff(initial=0.1, maximum=1.0, uniform=highest)
    assert [round(backoff.next(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_jitter_is_full() -> None:
    """A wait lies anywhere between nothing and the ceiling."""
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return low

    backoff = Backoff(uniform=uniform)
    backoff.next()
    backoff.next()
    assert bounds == [(0.0, 0.1), (0.0, 0.2)]


def test_only_a_stable_connection_starts_over() -> None:
    """A connection of a second changes nothing; one of a minute takes the ceiling back."""
    backoff = Backoff(initial=0.1, stable=60.0, uniform=highest)
    backoff.next()
    backoff.lasted(1.0)
    assert backoff.next() == 0.2
    backoff.lasted(60.0)
    assert backoff.next() == 0.1

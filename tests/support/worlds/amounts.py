"""Resource amounts as worlds draw and write them."""

from random import Random

from support.oracle.books import Amounts

TYPES = {"vcore": 1000, "memory": 8, "gpu": 1}
"""Resource types of the worlds, with a middling amount of each."""


def some(rng: Random, low: int, high: int) -> Amounts:
    """Amounts of some types, each so many times what is middling."""
    return {name: rng.randint(low, high) * typical for name, typical in TYPES.items() if rng.random() < 0.6}


def written(size: Amounts) -> dict[str, str]:
    """Amounts as a configuration writes them."""
    return {name: f"{value}m" if name == "vcore" else str(value) for name, value in size.items()}

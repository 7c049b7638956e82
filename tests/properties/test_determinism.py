"""T1: the same commands at the same times have the same effects, on every machine."""

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from support.patience import PATIENCE
from support.worlds import World, play_watched

TESTS = Path(__file__).resolve().parent.parent
SEEDS = range(3_000_000, 3_000_015)


@cache
def first_digest() -> str:
    """The digest, computed only once in this process."""
    return digest()


def digest() -> str:
    """A digest of all effects and events of some worlds."""
    told = hashlib.sha256()
    for seed in SEEDS:
        effects, facts = play_watched(World(seed).steps)
        told.update(repr((effects, [fact.records() for fact in facts])).encode())
    return told.hexdigest()


def digest_under(hash_seed: str) -> str:
    """The digest of a new interpreter with this hash seed."""
    done = subprocess.run(
        [sys.executable, "-c", "from properties.test_determinism import digest; print(digest())"],
        cwd=TESTS,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_the_same_log_has_the_same_effects() -> None:
    """Two cores with the same input have equal effects and events, byte for byte."""
    assert first_digest() == digest()


@pytest.mark.slow
def test_the_hash_seed_changes_nothing() -> None:
    """The effects do not depend on the order in which sets and dictionaries hash their keys."""
    assert len({first_digest(), *(digest_under(seed) for seed in ("0", "4711"))}) == 1

"""Random messages to one server after the other, for the tests and for the corpus."""

from collections.abc import Iterator
from random import Random

from support.fuzz.drawing import draw
from support.fuzz.peer import Broken
from support.fuzz.stage import Stage
from support.fuzz.targets import TARGETS, How, Target

MESSAGES = 100
"""Messages to one server."""
PAUSES = (0.5, 3.0, 31.0, 100.0)
"""Seconds that may pass after a message."""
_TARGETS = list(TARGETS.values())
_WEIGHTS = [target.weight for target in _TARGETS]


def next_message(rng: Random, stage: Stage) -> tuple[Target, bytes]:
    """A message and where to send it; those of a session mostly have the number that is due."""
    [target] = rng.choices(_TARGETS, _WEIGHTS)
    raw = draw(rng, target.request)
    if target.is_session and target.how is How.LATER and rng.random() < 0.9:
        raw = stage.numbered(raw)
    return target, raw


def play(seed: int) -> int:
    """Send one server its messages; how many there were.

    Raises:
        Broken: with the message after which the server did what it must not do.
    """
    rng = Random(seed)
    stage = Stage()
    try:
        for sent in range(MESSAGES):
            target, raw = next_message(rng, stage)
            try:
                stage.send(target, raw)
                if rng.random() < 0.02:
                    stage.pass_time(rng.choice(PAUSES))
            except Exception as error:
                place = f"seed {seed}, message {sent}, {target.name} {raw[:2000].hex()}"
                raise Broken(f"{error}\n{place}") from error
        stage.finish()
        return MESSAGES
    finally:
        stage.close()


def alone(seeds: range) -> Iterator[tuple[Target, bytes, tuple[str, ...]]]:
    """Random messages, each to a server of its own, with what was answered."""
    for seed in seeds:
        stage = Stage()
        try:
            target, raw = next_message(Random(seed), stage)
            yield target, raw, tuple(stage.send(target, raw))
        finally:
            stage.close()

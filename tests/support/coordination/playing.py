"""Plays a random world: faults and other events, then a time without faults, with permanent checks."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import structlog

from licorne_server.store.coordination.store import Snapshot
from support.coordination.process import Process
from support.coordination.rms import Violation
from support.coordination.world import World

STEPS = 300
FAULTS = 240
"""The number of steps with faults. In later steps members may still stop and drain."""
STEP_SECONDS = 0.4
"""The maximum of true time of a step."""

Action = Callable[[World, Process], None]


@contextmanager
def silence() -> Iterator[None]:
    """Members log nothing, and balance more often than once a minute."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("licorne_server.store.coordination.moving.PAUSE", 4.0)
            patch.setattr("licorne_server.store.coordination.placing.REST", 12.0)
            yield
    finally:
        structlog.configure(**before)


def _pause(world: World, process: Process) -> None:
    world.pause(process)


def _kill(world: World, process: Process) -> None:
    process.kill()


def _stop(world: World, process: Process) -> None:
    process.stop()


def _start(world: World, process: Process) -> None:
    dead = [address for address, process in world.processes.items() if process.is_dead]
    if dead:
        world.start(world.randomness.choice(dead))


def _cut_store(world: World, process: Process) -> None:
    process.network.is_cut_from_store = not process.network.is_cut_from_store


def _cut_rms(world: World, process: Process) -> None:
    process.network.is_cut_from_rms = not process.network.is_cut_from_rms


def isolate(world: World, process: Process) -> None:
    """Cut a process off from the store and the RMs, or connect it again."""
    is_cut = not process.network.is_cut_from_store
    process.network.is_cut_from_store = process.network.is_cut_from_rms = is_cut


def _store_down(world: World, process: Process) -> None:
    if world.store.is_down:
        world.store.restart()
    else:
        world.store.is_down = True


def _remove_lease(world: World, process: Process) -> None:
    world.condemn([process.run])
    world.store.leave(process.run)


def _wipe(world: World, process: Process) -> None:
    world.wipe(Snapshot())


def _restore(world: World, process: Process) -> None:
    world.wipe(world.store.older())


def _leave(world: World, process: Process) -> None:
    world.randomness.choice(world.rms).leave()


def _restart_rm(world: World, process: Process) -> None:
    world.randomness.choice(world.rms).restart()


def _dial(world: World, process: Process) -> None:
    world.randomness.choice(world.rms).dial()


def _drain(world: World, process: Process) -> None:
    world.store.drain(process.address, draining=world.randomness.random() < 0.5)


def _load(world: World, process: Process) -> None:
    world.randomness.choice(world.rms).load = world.randomness.uniform(0.0, 0.6)


FAULTY: dict[Action, float] = {
    _kill: 1.0,
    _start: 3.0,
    _cut_store: 2.0,
    _cut_rms: 2.0,
    isolate: 3.0,
    _store_down: 1.0,
    _remove_lease: 0.5,
    _wipe: 0.3,
    _restore: 0.2,
    _pause: 2.0,
    _restart_rm: 1.0,
}
PEACEFUL: dict[Action, float] = {_stop: 0.5, _leave: 2.0, _dial: 3.0, _drain: 1.0, _load: 2.0, _start: 1.0}


def play(seed: int, tune: Callable[[World], None] = lambda world: None, only: Action | None = None) -> None:
    """Play one world to its end, after `tune` has changed it, with faults of some kinds or of `only` one.

    Raises:
        Violation: A forbidden event has happened.
    """
    world = World(seed)
    tune(world)
    draw = world.randomness
    share = draw.choice((0.05, 0.1, 0.2, 0.4))
    # Each world has some kinds of faults only, so that some last and are not masked by others.
    faulty = {action: often for action, often in FAULTY.items() if draw.random() < 0.5} or FAULTY
    faulty = faulty if only is None else {only: 1.0}
    with silence():
        try:
            for step in range(STEPS):
                if step == FAULTS:
                    world.end_faults()
                _step(world, faulty if step < FAULTS and draw.random() < 0.5 else PEACEFUL, share)
                if world.violation:
                    break
            world.end_faults()
            world.check_served()
        finally:
            world.close()
    if world.violation:
        script = "\n".join(world.script)
        raise Violation(f"seed {seed}, {world.violation}\n{script}")


def _step(world: World, actions: dict[Action, float], share: float) -> None:
    draw = world.randomness
    living = world.living()
    if draw.random() < share:
        (action,) = draw.choices([*actions], [*actions.values()])
        process = draw.choice(living) if living else None
        if process is not None or action is _start:
            name = action.__name__.strip("_")
            world.script.append(f"{world.time.now:.3f} {name} {process.address if process else ''}")
            action(world, process)  # type: ignore[arg-type]
    world.time.run(world.time.now + draw.uniform(0.0, STEP_SECONDS))

"""`licorne serve` that fails when the RM `doomed` registers; the first argument chooses the failure."""

import asyncio
import sys
import time
from collections.abc import Callable

from licorne_cli.commands import main
from licorne_core.messages.commands import Command, RegisterRm
from licorne_server.engine.engine import Engine

FOR_EVER = 3600.0


def engine_ends(engine: Engine) -> None:
    """The engine's own task ends with an error."""

    def fail() -> float | None:
        raise RuntimeError("planted")

    engine._scheduler.next_deadline = fail  # type: ignore[method-assign]


def engine_waits(engine: Engine) -> None:
    """The engine waits for ever in the middle of a round, while the loop continues."""

    async def wait(*_: object) -> None:
        await asyncio.sleep(FOR_EVER)

    engine._wait = wait  # type: ignore[method-assign, assignment]


def loop_hangs(_: Engine) -> None:
    """The loop itself hangs."""
    time.sleep(FOR_EVER)


WAYS: dict[str, Callable[[Engine], None]] = {
    way.__name__: way for way in (engine_ends, engine_waits, loop_hangs)
}


def plant(way: Callable[[Engine], None]) -> None:
    """Let every engine fail that way."""
    real = Engine._handle

    def handle(engine: Engine, entry: object) -> None:
        real(engine, entry)  # type: ignore[arg-type]
        command: Command = entry.command  # type: ignore[attr-defined]
        if isinstance(command, RegisterRm) and command.rm_id == "doomed":
            way(engine)

    Engine._handle = handle  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    plant(WAYS[sys.argv.pop(1)])
    sys.exit(main())

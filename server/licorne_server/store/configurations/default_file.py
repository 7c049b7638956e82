"""The file of the default configuration: its content, and the detection of changes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import structlog

from licorne_core.config import built_in, load
from licorne_core.config.caps import MAX_BYTES
from licorne_core.config.schema import Configuration
from licorne_core.values.errors import ConfigError, Problem
from licorne_server.process.clock import Clock
from licorne_server.store.configurations.revisions import Source
from licorne_server.wire.errors import located

log = structlog.get_logger("core.configurations.reloading")

INTERVAL = 2.0
"""Seconds between two checks of the file."""


class DefaultFileError(Exception):
    """An unusable default file; `problems` are those of its text, if the text was readable."""

    def __init__(self, reason: str, problems: tuple[Problem, ...] = ()) -> None:
        """`reason` names the file."""
        super().__init__(reason)
        self.problems = problems


@dataclass(slots=True)
class Default:
    """Default configuration, for RMs without their own.

    `file` is the source of `current`; None for the built-in configuration.
    """

    current: Configuration = field(default_factory=built_in)
    file: Path | None = None

    @property
    def source(self) -> Source:
        """Source of its revisions in the history."""
        return Source.BUILT_IN if self.file is None else Source.FILE


def load_default(file: Path) -> Configuration:
    """Read and parse the configuration in the file.

    Raises:
        DefaultFileError: the file cannot be read, or its content is unusable.
    """
    try:
        return load(read_default(file), required=True)
    except ConfigError as error:
        raise refused_default(file, error.problems) from None


def read_default(file: Path) -> str:
    """Text of the file.

    Raises:
        DefaultFileError: the file cannot be read, is too large or is not UTF-8.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)  # one byte more shows that the file is too large
        if len(content) > MAX_BYTES:
            raise DefaultFileError(f"{file} is larger than {MAX_BYTES} bytes")
        return content.decode()
    except OSError as error:
        raise DefaultFileError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DefaultFileError(f"cannot read {file}: {error}") from None


def refused_default(file: Path, problems: tuple[Problem, ...]) -> DefaultFileError:
    """The error for a file with problems: ``file:line:column: path: message``, a line each."""
    lines = "\n".join(located(str(file), problems))
    return DefaultFileError(f"the default configuration is refused:\n{lines}", problems)


async def watch_file(
    what: str, file: Path, text: str, clock: Clock, changed: Callable[[], Awaitable[None]]
) -> None:
    """Call `changed` once two consecutive checks have found the same new content; `text` is the current text.

    So a half-written file is not used, and an unusable file is reported only once until it changes. Links are
    followed, as their target may change.
    """
    due = asyncio.Event()
    seen = last = sha256(text.encode()).hexdigest()
    while True:
        due.clear()
        await clock.wait(clock.now() + INTERVAL, due)
        try:
            content = await asyncio.to_thread(_digest, file)
        except Exception:
            log.exception(f"{what} not looked at")
            continue
        if content == last != seen:
            seen = content
            await changed()
        last = content


def _digest(file: Path) -> str:
    """Digest of the file's content, or the reason why the file is unreadable."""
    try:
        return sha256(read_default(file).encode()).hexdigest()
    except DefaultFileError as error:
        return str(error)

"""The configuration of RMs without their own: that of the `--config` file, or the built-in one."""

from dataclasses import dataclass, field
from pathlib import Path

from licorne_core.config import built_in, load
from licorne_core.config.caps import MAX_BYTES
from licorne_core.config.schema import Configuration
from licorne_core.values.errors import ConfigError, Problem
from licorne_server.configurations.revisions import Source
from licorne_server.wire.errors import located


class DefaultFileError(Exception):
    """The file cannot be used; `problems` are those of the text, if it could be read."""

    def __init__(self, reason: str, problems: tuple[Problem, ...] = ()) -> None:
        """`reason` names the file."""
        super().__init__(reason)
        self.problems = problems


@dataclass(slots=True)
class Default:
    """Default configuration, for RMs without their own.

    `file` is the source of `current`; without one nothing is ever read again.
    """

    current: Configuration = field(default_factory=built_in)
    file: Path | None = None

    @property
    def source(self) -> Source:
        """Its source in the history."""
        return Source.BUILT_IN if self.file is None else Source.FILE


def load_default(file: Path) -> Configuration:
    """The configuration in the file.

    Raises:
        DefaultFileError: the file cannot be read, or its content is unusable.
    """
    try:
        return load(read_default(file), required=True)
    except ConfigError as error:
        raise refused_default(file, error.problems) from None


def read_default(file: Path) -> str:
    """The text in the file.

    Raises:
        DefaultFileError: the file cannot be read, is too large or is not UTF-8.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)  # one more is enough to see that it is too large
        if len(content) > MAX_BYTES:
            raise DefaultFileError(f"{file} is larger than {MAX_BYTES} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise DefaultFileError(f"cannot read {file}: {error}") from None


def refused_default(file: Path, problems: tuple[Problem, ...]) -> DefaultFileError:
    """The error for a file with problems: ``file:line:column: path: message``, a line each."""
    lines = "\n".join(located(str(file), problems))
    return DefaultFileError(f"the default configuration is refused:\n{lines}", problems)

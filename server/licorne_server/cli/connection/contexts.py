"""The file of contexts: servers that `licorne` talks to, by name, and which of them is in use.

It is YAML, read as strictly as a queue configuration: an unknown key or a bad value is said with
its place. Secrets are named by their files, never written here.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from licorne_core.config.caps import MAX_BYTES
from licorne_core.config.document import Scalar, read_document
from licorne_core.config.reader import Cursor
from licorne_core.config.report import Report
from licorne_core.errors import ConfigError

PATH_VARIABLE = "LICORNE_CONTEXTS"
FILES = ("token", "tls-ca", "tls-cert", "tls-key")
"""Keys of a context that name files, as seen from the folder of the file of contexts."""
TEXTS = ("target", "tls-server-name", "partition", "rm")
SWITCH = "tls"
KEYS = ("target", SWITCH, *FILES[1:], "tls-server-name", "token", "partition", "rm")
"""What a context may say: each is an option of the commands."""


class ContextError(Exception):
    """It cannot be known which server is meant; the text says why."""


@dataclass(slots=True)
class Contexts:
    """What is in the file: contexts by name, each with its values by key, and which is in use."""

    current: str = ""
    by_name: dict[str, dict[str, str | bool]] = field(default_factory=dict)

    def get(self, name: str) -> dict[str, str | bool]:
        """One context.

        Raises:
            ContextError: there is none of that name.
        """
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise ContextError(f"there is no context {name} in {path()} (there: {known})")
        return self.by_name[name]


def path() -> Path:
    """Where the file is."""
    if os.environ.get(PATH_VARIABLE):
        return Path(os.environ[PATH_VARIABLE])
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "licorne" / "contexts.yaml"


def read() -> Contexts:
    """What is in the file; nothing if there is no file.

    Raises:
        ContextError: the file cannot be used; a line for each problem.
    """
    file = path()
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        report = Report()
        document = read_document(content.decode("utf-8", "surrogateescape"), report)
        if document is None or (isinstance(document, Scalar) and document.is_null):
            return Contexts()
        contexts = _contexts(Cursor(document, "", report))
        report.raise_problems()
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ContextError(f"cannot read {file}: {error.strerror}") from None
    except ConfigError as error:
        raise ContextError("\n".join(f"{file}:{problem}" for problem in error.problems)) from None
    return contexts


def _contexts(root: Cursor) -> Contexts:
    top = root.fields("current", "contexts")
    contexts = Contexts(current=top.text("current"))
    for name, entry in top.children("contexts").items():
        fields = entry.fields(*KEYS)
        values: dict[str, str | bool] = {
            key: fields.text(key) for key in (*TEXTS, *FILES) if fields.has(key)
        }
        if fields.has(SWITCH):
            values[SWITCH] = fields.flag(SWITCH)
        contexts.by_name[name] = values
    if contexts.current and contexts.current not in contexts.by_name:
        root.report.problem(f"there is no context {contexts.current}", top.path("current"))
    return contexts


def write(contexts: Contexts) -> None:
    """Put the contexts in place of what is in the file, all at once.

    Raises:
        ContextError: it cannot be written.
    """
    import yaml

    file = path()
    data: Mapping[str, object] = {"current": contexts.current, "contexts": contexts.by_name}
    beside = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        raise ContextError(f"cannot write {file}: {error.strerror}") from None


def resolved(key: str, value: str | bool) -> str | bool | Path:
    """A value as an option has it: files are seen from the folder of the file of contexts."""
    if key not in FILES:
        return value
    return path().parent / Path(str(value)).expanduser()


def to_write(key: str, given: str | bool) -> str | bool:
    """A value as the file has it: a file that was named on the command line has its whole path."""
    if key not in FILES:
        return given
    return str(Path(str(given)).expanduser().absolute())

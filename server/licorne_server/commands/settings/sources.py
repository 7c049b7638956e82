"""The value of each key: from a flag, or else the environment, or else the file.

Only the value in force is checked. Every problem names its source.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from licorne_cli.parsing.parser import did_you_mean, similar
from licorne_core.values.errors import shown
from licorne_server.commands.settings.kinds import written
from licorne_server.commands.settings.tables import KEYS, PREFIX, TABLES, Members, Tables
from licorne_server.process.settings import SettingsError

FILE_VARIABLE = f"{PREFIX}SETTINGS"
"""The variable that names the file."""

ENDPOINT = "telemetry.otlp_endpoint"
STANDARD_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's variables for the collector; the first variable that is set counts."""
PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
"""Protocol of the export of spans."""
OFF_VARIABLE = "OTEL_SDK_DISABLED"
"""OpenTelemetry's variable whose value `true` disables its other variables."""

RESERVATIONS = "scheduling.reservations"
NO_RESERVATIONS = "DISABLE_RESERVATION"
"""The older core's variable: `true` turns reservations off."""


STORE = "coordination.store"

_NAMED = re.compile(rf"(?<![\w./=-])({'|'.join(sorted(map(re.escape, KEYS), reverse=True))})(?!\w|[./-]\w)")
"""Keys in a text; parts of a path are not keys."""


@dataclass(frozen=True, slots=True)
class Given:
    """The value of a setting, as in the settings file, and its source."""

    name: str
    """The flag, the variable, or the key in the file."""
    value: Any
    file: Path | None = None
    """The file that contains it; paths are relative to the file's folder."""

    @property
    def where(self) -> str:
        """The place of the value, for error texts."""
        return self.name if self.file is None else f"{self.file}: {self.name}"


class Reading(NamedTuple):
    """The result of reading all sources."""

    tables: Tables
    unknown: Mapping[str, str]
    """Unknown variables with our prefix, each with a suggestion."""
    names: Mapping[str, str]
    """The flag or variable that has set each key, or otherwise one that can set it."""


def named(error: SettingsError, names: Mapping[str, str]) -> str:
    """The text of a refusal, with each key replaced by its name in `Reading.names`."""
    return _NAMED.sub(lambda found: names.get(found[0], found[0]), str(error))


def read(
    flags: Mapping[str, Given],
    environ: Mapping[str, str],
    file: Path | None,
    names: Mapping[str, str] | None = None,
) -> Reading:
    """Read all tables, from flags by key, the environment, and the file.

    `names` replaces keys without a value by other names in texts.

    Raises:
        SettingsError: a value or the file is unusable; the text has a line for each problem.
    """
    problems: list[str] = []
    given = dict(_of_file(file, problems)) if file is not None else {}
    given |= dict(_of_environment(environ))
    given |= flags
    read: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    for path, one in given.items():
        key = KEYS[path]
        try:
            folder = Path() if one.file is None else one.file.parent
            read[key.table][key.name] = key.kind.read(one.value, folder)
        except ValueError as error:
            reason = str(error) or f"expected {key.kind.form}"
            problems.append(f"{one.where}: {reason}: {_without_password(shown(written(one.value)))}")
    if problems:
        raise SettingsError("\n".join(problems))
    names = {**(names or {}), **{path: one.name for path, one in given.items()}}
    try:
        if STORE in given and read["coordination"]["store"] is None:
            # An explicit `off` overrides all settings of a store from other sources.
            read["coordination"].clear()
        tables = Tables(**{name: kind(**read[name]) for name, kind in TABLES.items()})
        members, without = tables.coordination, Members()
        for name in members.__slots__ if members.store is None else ():
            if getattr(members, name) != getattr(without, name):
                raise SettingsError(f"coordination.{name} needs {STORE}")
    except SettingsError as error:
        raise SettingsError(named(error, names)) from None
    return Reading(tables, dict(_unknown(environ)), names)


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables of settings, for a server that is not the operator's."""
    ours = {FILE_VARIABLE, *(key.variable for key in KEYS.values())}
    return {name: text for name, text in environ.items() if name not in ours}


def _without_password(text: str) -> str:
    """Hide the user and password in an address."""
    scheme, separator, rest = text.partition("://")
    return f"{scheme}://…@{rest.rpartition('@')[2]}" if separator and "@" in rest else text


def _of_file(file: Path, problems: list[str]) -> Iterator[tuple[str, Given]]:
    """The values in the file; unknown keys and other errors are added to `problems`."""
    try:
        document = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{file}: {reason}") from None
    for name, table in document.items():
        if name not in TABLES:
            problems.append(f"{file}: {name} is no table{_meant(name) or did_you_mean(name, TABLES)}")
        elif not isinstance(table, dict):
            problems.append(f"{file}: {name} is a table, [{name}]: {shown(written(table))}")
        else:
            for key, value in table.items():
                path = f"{name}.{key}"
                if path in KEYS:
                    yield path, Given(path, value, file)
                else:
                    problems.append(f"{file}: {path} is no key{_meant(key) or did_you_mean(path, KEYS)}")


def _meant(name: str) -> str:
    """A suggestion if another table has a key of this name."""
    return next((f", did you mean {path}?" for path, key in KEYS.items() if key.name == name), "")


def _of_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    """The values of variables; an empty one counts as unset. Licorne's variables override those of others."""
    if environ.get(NO_RESERVATIONS, "").lower() == "true":
        yield RESERVATIONS, Given(NO_RESERVATIONS, False)
    yield from _standard(environ)
    for path, key in KEYS.items():
        text = environ.get(key.variable, "")
        if text:
            items = [item.strip() for item in text.split(",")]
            yield path, Given(key.variable, items if key.kind.several else key.kind.of_text(text))


def _standard(environ: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    """The collector in OpenTelemetry's variables.

    Raises:
        SettingsError: they select another protocol than ours.
    """
    named_by = next((name for name in STANDARD_VARIABLES if environ.get(name)), "")
    own = KEYS[ENDPOINT].variable
    if not named_by or environ.get(OFF_VARIABLE, "").lower() == "true" or environ.get(own):
        return
    protocol = next((name for name in PROTOCOL_VARIABLES if environ.get(name)), "")
    if protocol and environ[protocol] != PROTOCOL:
        raise SettingsError(
            f"{protocol} is {environ[protocol]!r}, but spans are sent by {PROTOCOL} only: name a "
            f"collector that takes it by {own}, or have no traces by {OFF_VARIABLE}=true"
        )
    yield ENDPOINT, Given(named_by, environ[named_by])


def _unknown(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    known = {key.variable.lower(): key.variable for key in KEYS.values()}
    begins = tuple(f"{PREFIX}{table}_".upper() for table in TABLES)
    # Names of variables without their table. Variables that begin with the prefix of TLS are the client's.
    short = {f"{PREFIX}{key.name}".upper(): key.variable for key in KEYS.values()}
    for name in environ:
        if name.startswith(begins) and name not in known.values():
            yield name, known.get(similar(name, known), "")
        elif name in short and not name.startswith(f"{PREFIX}TLS_"):
            yield name, short[name]

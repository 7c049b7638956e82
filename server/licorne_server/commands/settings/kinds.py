"""Kinds of values in the settings of a server: the expected form of each, and its reader."""

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from licorne_cli.parsing.parser import size as bytes_of
from licorne_server.process.coordination import Coordination, read_coordination
from licorne_server.process.memory import MAX_WORKERS, usual_workers
from licorne_server.process.settings import TRANSPORTS, Address, SettingsError

OFF, AUTO = "off", "auto"
"""Words for "no value", and for a value that the server determines."""

MOST, MOST_SECONDS = 2**63 - 1, 1e9

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueKind(Generic[T]):
    """Values of one kind."""

    form: str
    """The expected form, for error texts."""
    metavar: str
    """Name of the value in the help of a flag."""
    read: Callable[[Any, Path], T]
    """Reads a value in the form of the file; paths are relative to the folder. Raises ValueError for an
    invalid value, with a text if `form` does not explain the error."""
    of_text: Callable[[str], Any] = str
    """Converts the text of a flag or a variable to the form of the file."""
    several: bool = False
    """True for a list: the items of a variable are separated by commas, and a flag is repeated."""
    words: tuple[str, ...] = ()
    """The permitted words, if the values are words."""


def _if(
    test: Callable[[Any], bool], form: str, metavar: str, of_text: Callable[[str], Any] = str
) -> ValueKind[Any]:
    """Values that pass a test."""

    def read(value: Any, _: Path) -> Any:
        if not test(value):
            raise ValueError
        return value

    return ValueKind(form=form, metavar=metavar, read=read, of_text=of_text)


def _number(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def whole(least: int, most: int = MOST) -> ValueKind[int]:
    """A whole number in a range."""
    form = f"a whole number, {least} {'or more' if most == MOST else f'to {most}'}"
    return _if(lambda value: type(value) is int and least <= value <= most, form, "N", _number)


def seconds(least: float, most: float = MOST_SECONDS) -> ValueKind[float]:
    """A number of seconds in a range."""
    form = f"a number of seconds, {least:g} {'or more' if most == MOST_SECONDS else f'to {most:g}'}"
    return _if(lambda value: _is_number(value) and least <= value <= most, form, "SECONDS", _number)


def size(least: int) -> ValueKind[int]:
    """A number of bytes, at least `least`: a number, or a text with a unit."""

    def read(value: Any, _: Path) -> int:
        try:
            value = bytes_of(value) if isinstance(value, str) else value
        except ArgumentTypeError:
            raise ValueError from None
        if type(value) is not int or not least <= value <= MOST:
            raise ValueError
        return value

    form = f"bytes, {least} or more, as a number or such as 512Mi"
    return ValueKind(form=form, metavar="SIZE", read=read, of_text=_number)


def word(*words: str) -> ValueKind[str]:
    """A value that is one of these words."""
    some = _if(lambda value: value in words, f"one of {', '.join(words)}", "|".join(words))
    return replace(some, words=words)


def _text(form: str, metavar: str, read: Callable[[str, Path], T]) -> ValueKind[T]:
    """A printable text, parsed by `read`, which raises SettingsError, or ValueError with an explanation."""

    def read_text(value: Any, folder: Path) -> T:
        if not (isinstance(value, str) and value and value.isprintable()):
            raise ValueError
        try:
            return read(value, folder)
        except SettingsError:
            raise ValueError from None

    return ValueKind(form=form, metavar=metavar, read=read_text)


def _matching(test: Callable[[str], object]) -> Callable[[str, Path], str]:
    def read(value: str, _: Path) -> str:
        if not test(value):
            raise ValueError
        return value

    return read


def address(default_port: int | None = None) -> ValueKind[Address]:
    """An address to listen on. With `default_port` the port may be left out."""
    return _text("HOST:PORT", "HOST:PORT", lambda value, _: Address.parse(value, default_port))


def _store(value: str, _: Path) -> Coordination:
    try:
        return read_coordination(value)
    except SettingsError as error:
        raise ValueError(str(error)) from None


def _is_collector(value: str) -> bool:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False
    return usable and not parts.query and not parts.fragment


def _is_origin(value: str) -> bool:
    """True for an origin in the form that browsers send."""
    scheme, _, host = value.partition("://")
    known = scheme in ("http", "https") and host and host == host.lower()
    return value == "*" or bool(known and not set(host) & set("/?#@* ,") and value.isascii())


def _is_host(value: str) -> bool:
    """True for the name of a host, which may have a port and a scheme."""
    name, colon, port = value.removeprefix("https://").removeprefix("http://").partition(":")
    has_port = not colon or (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16)
    return value == "*" or bool(name and name.isascii() and not set(name) & set(" /?#@*,[]") and has_port)


def off_or(kind: ValueKind[T]) -> ValueKind[T | None]:
    """A value, or `off` for None."""
    return _word_or(OFF, lambda: None, kind)


def auto_or(kind: ValueKind[T]) -> ValueKind[T | None]:
    """A value, or `auto` for None: the server determines it."""
    return _word_or(AUTO, lambda: None, kind)


def _word_or(word: str, make: Callable[[], U], kind: ValueKind[T]) -> ValueKind[T | U]:
    def read(value: Any, folder: Path) -> T | U:
        return make() if value == word else kind.read(value, folder)

    form = f"{kind.form}, or {word}"
    return ValueKind(form=form, metavar=kind.metavar, read=read, of_text=kind.of_text, words=(word,))


def each(kind: ValueKind[T]) -> ValueKind[tuple[T, ...]]:
    """A list of values."""

    def read(value: Any, folder: Path) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise ValueError
        return tuple(kind.read(item, folder) for item in value)

    return ValueKind(form=f"a list, each {kind.form}", metavar=kind.metavar, read=read, several=True)


def by_rm(kind: ValueKind[T]) -> ValueKind[Mapping[str, tuple[T, ...]]]:
    """Lists of values by rmID; as text, a list of ``RM=VALUE``."""

    def read(value: Any, folder: Path) -> Mapping[str, tuple[T, ...]]:
        if isinstance(value, list):
            value = _joined(value)
        if not isinstance(value, dict) or "" in value:
            raise ValueError
        return {rm_id: listed.read(items, folder) for rm_id, items in value.items()}

    listed, metavar = each(kind), f"RM={kind.metavar}"
    form = f"lists by rmID, such as {{rm1 = [{kind.metavar}]}}, or {metavar}"
    return ValueKind(form=form, metavar=metavar, read=read, several=True)


def _joined(pairs: list[Any]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in pairs:
        if not isinstance(pair, str) or "=" not in pair:
            raise ValueError
        rm_id, _, value = pair.partition("=")
        values.setdefault(rm_id.strip(), []).append(value.strip())
    return values


_SWITCHES = {"true": True, "false": False}
SWITCH: ValueKind[bool] = _if(
    lambda value: type(value) is bool, "true or false", "BOOL", lambda text: _SWITCHES.get(text.lower(), text)
)
SHARE: ValueKind[float] = _if(
    lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1", "SHARE", _number
)
MORE_SECONDS: ValueKind[float] = _if(
    lambda value: _is_number(value) and 0 < value <= MOST_SECONDS,
    "a number of seconds above 0",
    "SECONDS",
    _number,
)
FILE = _text("the path of a file", "FILE", lambda value, folder: folder / value)
FOLDER = _text("the path of a directory", "DIR", lambda value, folder: folder / value)
NAME = _text("a name", "NAME", _matching(bool))
URL = _text("a URL", "URL", _matching(bool))
TARGET = _text("HOST:PORT", "HOST:PORT", _matching(bool))
STORE = _text("etcd://HOST:PORT,.../PREFIX or kubernetes://NAMESPACE/NAME", "URL", _store)
COLLECTOR = _text(
    "the http or https address of a collector, such as http://127.0.0.1:4318", "URL", _matching(_is_collector)
)
ORIGIN = _text("an origin such as https://ui.example:8443, or *", "ORIGIN", _matching(_is_origin))
HOST = _text("a name such as licorne.example or https://x.y:8443, or *", "NAME", _matching(_is_host))
TRANSPORT = word(*TRANSPORTS)
WORKERS = _word_or(AUTO, usual_workers, whole(1, MAX_WORKERS))


def written(value: Any) -> str:
    """A value in the form of the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value).removesuffix(".0")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(name, ensure_ascii=False)} = {written(item)}" for name, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return json.dumps(str(value), ensure_ascii=False)

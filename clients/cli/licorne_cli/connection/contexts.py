"""Contexts, which are named servers: their file, and `licorne context`.

The file is YAML; an unknown key or an invalid value is reported with its name. It contains names of files
with secrets, never secrets.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from licorne_cli.failures import NOT_FOUND, OK, USAGE
from licorne_cli.output.listing import FORMS
from licorne_cli.output.text import DATA_FORMS, NOTHING, print_data, print_table, say
from licorne_cli.parsing.parser import did_you_mean

PATH_VARIABLE = "LICORNE_CONTEXTS"
FILES = ("token", "tls-ca", "tls-cert", "tls-key")
"""Keys whose values are files, relative to the folder of the contexts' file."""
TARGET, SWITCH = "target", "tls"
NULLS = ("", "~", "null", "Null", "NULL")
MAX_BYTES = 2**20
"""Maximum bytes of the file, which is written by hand."""
KEYS = (TARGET, SWITCH, *FILES[1:], "tls-server-name", "token", "partition", "rm")
"""Keys of a context; each is also an option of the commands."""
EXAMPLES = (
    (
        "licorne context set prod --target core.example --tls-ca ca.pem --token token",
        "name a server",
    ),
    ("licorne context use prod", "it is the one that commands ask from now on"),
    ("licorne context list", "all of them"),
    ("licorne queues --context test", "ask another one this time"),
)
EPILOG = """\
Contexts are in $LICORNE_CONTEXTS, or else in ~/.config/licorne/contexts.yaml. A value comes from
the option, or else from the context of --context, the environment (LICORNE_TARGET, LICORNE_TLS,
LICORNE_TLS_CA, LICORNE_TLS_CERT, LICORNE_TLS_KEY, LICORNE_TLS_SERVER_NAME, LICORNE_TOKEN_FILE,
LICORNE_PARTITION, LICORNE_RM), or the context in use, which LICORNE_CONTEXT may name. A target may
be a list, HOST:PORT,HOST:PORT: the first member of it that answers is asked.

A context is for its own target alone. If the target comes from elsewhere and is another one,
nothing of the context counts, so that its token and its certificate go to no other server. A token
and a certificate of the environment go to no target but LICORNE_TARGET, if that is set. Who gives
both --context and --target sends what the context has to that target.
"""


class ContextError(Exception):
    """A target, an RM or the file of contexts cannot be used; the text gives the reason."""


@dataclass(slots=True)
class Contexts:
    """The content of the file: contexts by name, each with values by key, and the current context's name."""

    current: str = ""
    by_name: dict[str, dict[str, str | bool]] = field(default_factory=dict)

    def get(self, name: str) -> dict[str, str | bool]:
        """The values of a context.

        Raises:
            ContextError: there is no context of that name.
        """
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise ContextError(f"there is no context {name} in {path()} (there: {known})")
        return self.by_name[name]


def path() -> Path:
    """The path of the file."""
    if os.environ.get(PATH_VARIABLE):
        return Path(os.environ[PATH_VARIABLE])
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "licorne" / "contexts.yaml"


class _Loader(yaml.BaseLoader):
    """Loads values as texts; a null counts as absent, and a repeated key is an error."""

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        """The text of a node; None for a plain null."""
        found = super().construct_scalar(node)
        return None if node.style is None and found in NULLS else found

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node, including all descendants."""
        found = super().construct_mapping(node, deep=True)
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                why = f"key {key.value!r:.80} is given twice"
                raise yaml.constructor.ConstructorError(None, None, why, key.start_mark)
            seen.add(key.value)
        return {key: value for key, value in found.items() if value is not None}


def read() -> Contexts:
    """The contexts in the file; none if there is no file.

    Raises:
        ContextError: the file cannot be used; the text gives the first problem.
    """
    file = path()
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ContextError(f"larger than {MAX_BYTES} bytes")
        return _contexts(yaml.load(data, _Loader))
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ContextError(f"cannot read {file}: {error.strerror}") from None
    except ContextError as error:
        raise ContextError(f"{file}: {error}") from None
    # Python, not the parser, raises an error for an escape of an impossible character.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{mark.line + 1}:{mark.column + 1}:" if mark else ""
        reason = getattr(error, "problem", None) or error
        raise ContextError(f"{file}:{place} not valid YAML: {reason}") from None


def _contexts(document: Any) -> Contexts:
    top = _mapping(document, "the file", ("current", "contexts"))
    found = Contexts(current=str(top.get("current", "")))
    for name, values in _mapping(top.get("contexts"), "contexts").items():
        where = f"contexts.{name}"
        given = _mapping(values, where, KEYS)
        found.by_name[name] = {key: _value(key, given[key], f"{where}.{key}") for key in given}
    if found.current and found.current not in found.by_name:
        raise ContextError(f"current: there is no context {found.current}")
    return found


def _mapping(value: Any, where: str, known: Sequence[str] = ()) -> dict[str, Any]:
    if not value:
        return {}
    if not isinstance(value, dict):
        raise ContextError(f"{where}: expected a mapping")
    for key in value:
        if not key:
            raise ContextError(f"{where}: a key is empty")
        if known and key not in known:
            raise ContextError(f"{where}: unknown key {key!r:.80}{did_you_mean(key, known)}")
    return value


def _value(key: str, value: Any, where: str) -> str | bool:
    if key == TARGET and isinstance(value, list):
        for item in value:
            if not isinstance(item, str):
                raise ContextError(f"{where}: expected a list of texts, found {item!r:.80} in it")
        value = ",".join(value)
    if not isinstance(value, str):
        raise ContextError(f"{where}: expected a text, found {value!r:.80}")
    if key == SWITCH and value.lower() not in ("true", "false"):
        raise ContextError(f"{where}: expected true or false, found {value!r:.80}")
    return value.lower() == "true" if key == SWITCH else value


def write(contexts: Contexts) -> None:
    """Replace the content of the file atomically.

    Raises:
        ContextError: the file cannot be written.
    """
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
    """The value in the form of an option: files are relative to the folder of the contexts' file."""
    if key not in FILES:
        return value
    return path().parent / Path(str(value)).expanduser()


def to_write(key: str, given: str | bool) -> str | bool:
    """The value as it is written to the file: files get their absolute paths."""
    if key not in FILES:
        return given
    return str(Path(str(given)).expanduser().absolute())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne context`."""
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text, needs_name in (
        ("list", "all contexts, that in use with a star", False),
        ("show", "one of them, or that in use", False),
        ("use", "let commands ask this one", True),
        ("delete", "take one away", True),
        ("set", "make one, or change what is given", True),
    ):
        action = actions.add_parser(name, help=text, description=text)
        if needs_name or name == "show":
            action.add_argument(
                "name",
                nargs=None if needs_name else "?",
                metavar="CONTEXT",
                help="its name" if needs_name else "its name (default: that in use)",
            )
        if name in ("list", "show"):
            action.add_argument("-o", "--output", choices=FORMS, default="table", help="form (%(default)s)")
        if name == "set":
            _add_values(action)


def _add_values(parser: argparse.ArgumentParser) -> None:
    for key in KEYS:
        text = f"what --{key} is by default; an empty one takes it away"
        if key == SWITCH:
            parser.add_argument(f"--{key}", dest=key, action=argparse.BooleanOptionalAction, help="use TLS")
        else:
            metavar = "FILE" if key in FILES else key.upper()
            parser.add_argument(f"--{key}", dest=key, metavar=metavar, help=text)


def run(args: argparse.Namespace) -> int:
    """Show or change the contexts."""
    try:
        return ACTIONS[args.action](read(), args)
    except ContextError as error:
        say(f"licorne: {error}")
        return USAGE


def show_all(found: Contexts, args: argparse.Namespace) -> int:
    """Print all contexts by name."""
    names = sorted(found.by_name)
    if args.output in DATA_FORMS:
        data = {"current": found.current, "contexts": {n: found.by_name[n] for n in names}}
        print_data(data, args.output)
    elif args.output == "name":
        for name in names:
            print(f"context/{name}")
    else:
        keys = KEYS if args.output == "wide" else SHOWN
        rows = [
            ("*" if name == found.current else "", name, *(cell(found, name, k) for k in keys))
            for name in names
        ]
        print_table(("CURRENT", "CONTEXT", *(key.upper() for key in keys)), rows, heads=2)
    return OK


SHOWN = ("target", "tls", "token", "partition", "rm")
"""Keys in the list of contexts; a wide list has all keys."""


def cell(found: Contexts, name: str, key: str) -> str:
    """A value of a context, for people."""
    values = found.by_name[name]
    if key == "tls":
        return "yes" if any(k.startswith("tls") and values[k] for k in values) else "no"
    return str(values.get(key, "")) or NOTHING


def show_one(found: Contexts, args: argparse.Namespace) -> int:
    """Print all values of a context."""
    name = args.name or found.current
    if not name:
        say("licorne: no context is in use")
        return NOT_FOUND
    values = found.get(name)
    if args.output in DATA_FORMS:
        print_data({"name": name, **values}, args.output)
    elif args.output == "name":
        print(f"context/{name}")
    else:
        rows = [("context", name), *((key, str(values[key])) for key in KEYS if key in values)]
        print_table(("KEY", "VALUE"), rows)
    return OK


def use(found: Contexts, args: argparse.Namespace) -> int:
    """Make a context the current one."""
    found.get(args.name)
    found.current = args.name
    write(found)
    say(f"context {args.name} is in use")
    return OK


def delete(found: Contexts, args: argparse.Namespace) -> int:
    """Delete a context; if it was the current context, no context is current afterwards."""
    found.get(args.name)
    del found.by_name[args.name]
    if found.current == args.name:
        found.current = ""
    write(found)
    say(f"context {args.name} is deleted")
    return OK


def change(found: Contexts, args: argparse.Namespace) -> int:
    """Create or change a context; the first context becomes the current one."""
    values = found.by_name.setdefault(args.name, {})
    for key in KEYS:
        given = getattr(args, key)
        if given == "":
            values.pop(key, None)
        elif given is not None:
            values[key] = to_write(key, given)
    found.current = found.current or args.name
    write(found)
    in_use = ", and in use" if found.current == args.name else ""
    say(f"context {args.name} is in {path()}{in_use}")
    return OK


ACTIONS: dict[str, Callable[[Contexts, argparse.Namespace], int]] = {
    "list": show_all,
    "show": show_one,
    "use": use,
    "delete": delete,
    "set": change,
}

"""Contexts, which are named servers: their file, and `licorne context`.

The file is YAML, read strictly: an unknown key or a bad value is reported with its place. Secrets
are named by their files, never written here.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from licorne_cli.failures import NOT_FOUND, OK, USAGE
from licorne_cli.output.listing import FORMS
from licorne_cli.output.text import DATA_FORMS, NOTHING, print_data, print_table, say
from licorne_cli.parsing.parser import similar

PATH_VARIABLE = "LICORNE_CONTEXTS"
MAX_BYTES = 2**20
"""Limit of the file, which is written by hand."""
MAX_LISTED, MAX_SHOWN = 20, 200
"""Limits of shown problems of the file, and of characters of each."""
FILES = ("token", "tls-ca", "tls-cert", "tls-key")
"""Keys whose values are files, relative to the folder of the file of contexts."""
TARGET, SWITCH = "target", "tls"
KEYS = (TARGET, SWITCH, *FILES[1:], "tls-server-name", "token", "partition", "rm")
"""Keys of a context: each is an option of the commands."""
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
    """The server cannot be determined; the text gives the reason."""


@dataclass(slots=True)
class Contexts:
    """Content of the file: contexts by name, each with its values by key, and the name of the current one."""

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


def read() -> Contexts:
    """The contexts of the file; none without a file.

    Raises:
        ContextError: the file cannot be used; a line for each problem.
    """
    file = path()
    reader, found = _Reader(), Contexts()
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            reader.problems.append(f" larger than {MAX_BYTES} bytes")
        else:
            found = reader.contexts(yaml.compose(content.decode(), Loader=yaml.SafeLoader))
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ContextError(f"cannot read {file}: {error.strerror}") from None
    # An escape of an impossible character is an error of Python, not of the parser.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        reader.problems.append(_why_not_yaml(error))
    if reader.problems:
        more = [f"… and {reader.more} more"] if reader.more else []
        raise ContextError("\n".join([*(f"{file}:{one}" for one in reader.problems), *more]))
    return found


def _why_not_yaml(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"{mark.line + 1}:{mark.column + 1}:" if mark else ""
    return f"{place} not valid YAML: {getattr(error, 'problem', None) or error}"


class _Reader:
    """Reads contexts from the nodes of a YAML document, and notes every problem with its place."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.more = 0
        # A mapping with aliases is read once.
        self._read: dict[int, dict[str, yaml.Node]] = {}

    def contexts(self, root: yaml.Node | None) -> Contexts:
        """The contexts of a document."""
        found = Contexts()
        top = self._entries(root, "", ("current", "contexts"))
        for name, node in self._entries(top.get("contexts"), "contexts").items():
            where = f"contexts.{name}"
            found.by_name[name] = {
                key: self._value(value, key, f"{where}.{key}")
                for key, value in self._entries(node, where, KEYS).items()
            }
        if "current" in top:
            found.current = self._text(top["current"], "current")
            if found.current and found.current not in found.by_name:
                self._note(top["current"], "current", f"there is no context {found.current}")
        return found

    def _entries(self, node: yaml.Node | None, where: str, known: Sequence[str] = ()) -> dict[str, yaml.Node]:
        """The values of a mapping that are not null, by key; other keys than `known` are problems."""
        if node is None or _is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self._note(node, where, f"expected a mapping, found {_kind(node)}")
            return {}
        if id(node) in self._read:
            return self._read[id(node)]
        found: dict[str, yaml.Node] = {}
        self._read[id(node)] = found
        self._refuse_tag(node, where)
        seen: set[str] = set()
        for key, value in node.value:
            name = self._name(key, where)
            at = f"{where}.{name}" if where else name
            if not name:
                continue
            if known and name not in known:
                # The search for a similar key is slow.
                meant = "" if self.more else similar(name, known)
                hint = f", did you mean '{meant}'?" if meant else ""
                self._note(key, at, f"unknown key '{name}'{hint}")
            elif name in seen:
                self._note(key, at, f"key '{name}' is given twice")
            elif not _is_null(value):
                found[name] = value
            seen.add(name)
        return found

    def _name(self, key: yaml.Node, where: str) -> str:
        """The text of a key; empty if it is invalid."""
        if key.tag == f"{YAML_TAG}merge":
            self._note(key, where, "merge keys (<<) are not allowed: write the values out")
        elif not isinstance(key, yaml.ScalarNode) or not key.value:
            self._note(key, where, f"expected a name as key, found {_kind(key)}")
        else:
            return str(key.value)
        return ""

    def _text(self, node: yaml.Node, where: str) -> str:
        self._refuse_tag(node, where)
        if not isinstance(node, yaml.ScalarNode):
            self._note(node, where, f"expected a text, found {_kind(node)}")
            return ""
        return str(node.value)

    def _value(self, node: yaml.Node, key: str, where: str) -> str | bool:
        if key == TARGET and isinstance(node, yaml.SequenceNode):
            return ",".join(self._text(one, where) for one in node.value)
        return self._flag(node, where) if key == SWITCH else self._text(node, where)

    def _flag(self, node: yaml.Node, where: str) -> bool:
        if _is_plain(node) and node.value.lower() in ("true", "false"):
            return bool(node.value.lower() == "true")
        self._note(node, where, f"expected true or false, found {_kind(node)}")
        return False

    def _refuse_tag(self, node: yaml.Node, where: str) -> None:
        if node.tag.removeprefix(YAML_TAG) not in TYPES:
            self._note(node, where, "tags are not allowed")

    def _note(self, node: yaml.Node, where: str, message: str) -> None:
        if len(self.problems) == MAX_LISTED:
            self.more += 1
            return
        mark, text = node.start_mark, f"{where}: {message}" if where else message
        text = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
        self.problems.append(f"{mark.line + 1}:{mark.column + 1}: {text}")


YAML_TAG = "tag:yaml.org,2002:"
TYPES = ("bool", "float", "int", "map", "merge", "null", "seq", "str", "timestamp", "value")
"""Types that YAML infers for a value; here every value is a text."""


def _is_plain(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.style


def _is_null(node: yaml.Node) -> bool:
    return _is_plain(node) and node.tag == f"{YAML_TAG}null"


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return f"'{node.value}'" if _is_plain(node) else f"the text '{node.value}'"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


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
    """A value as an option: files are relative to the folder of the file of contexts."""
    if key not in FILES:
        return value
    return path().parent / Path(str(value)).expanduser()


def to_write(key: str, given: str | bool) -> str | bool:
    """A value for the file: files get their absolute paths."""
    if key not in FILES:
        return given
    return str(Path(str(given)).expanduser().absolute())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne context`."""
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
    """Show or change the file of contexts."""
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
    """Delete a context; without it, no context may be current."""
    found.get(args.name)
    del found.by_name[args.name]
    if found.current == args.name:
        found.current = ""
    write(found)
    say(f"context {args.name} is deleted")
    return OK


def change(found: Contexts, args: argparse.Namespace) -> int:
    """Create or change a context; the first one becomes current."""
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

"""`licorne context`: the servers that have names, and which of them is meant."""

import argparse
from collections.abc import Callable

from licorne_server.cli.connection import contexts
from licorne_server.cli.connection.channel import NOT_FOUND, OK, USAGE
from licorne_server.cli.connection.contexts import ContextError, Contexts
from licorne_server.cli.connection.target import VARIABLES
from licorne_server.cli.output.listing import FORMS
from licorne_server.cli.output.text import NOTHING, print_data, print_table, say

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
LICORNE_PARTITION, LICORNE_RM), or the context in use, which LICORNE_CONTEXT may name.

A context is for its own target alone. If the target comes from elsewhere and is another one,
nothing of the context counts, so that its token and its certificate go to no other server. A token
and a certificate of the environment go to no target but LICORNE_TARGET, if that is set. Who gives
both --context and --target sends what the context has to that target.
"""


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
            action.add_argument(
                "-o", "--output", choices=FORMS, default="table", help="form (%(default)s)"
            )
        if name == "set":
            _add_values(action)


def _add_values(parser: argparse.ArgumentParser) -> None:
    for key in contexts.KEYS:
        text = f"what --{key} is by default; an empty one takes it away"
        if key == contexts.SWITCH:
            parser.add_argument(
                f"--{key}", dest=key, action=argparse.BooleanOptionalAction, help="use TLS"
            )
        else:
            metavar = "FILE" if key in contexts.FILES else key.upper()
            parser.add_argument(f"--{key}", dest=key, metavar=metavar, help=text)


def run(args: argparse.Namespace) -> int:
    """Show or change the file of contexts."""
    try:
        return ACTIONS[args.action](contexts.read(), args)
    except ContextError as error:
        say(f"licorne: {error}")
        return USAGE


def show_all(found: Contexts, args: argparse.Namespace) -> int:
    """All of them by name."""
    names = sorted(found.by_name)
    if args.output in ("json", "yaml"):
        data = {"current": found.current, "contexts": {n: found.by_name[n] for n in names}}
        print_data(data, args.output)
    elif args.output == "name":
        for name in names:
            print(f"context/{name}")
    else:
        keys = contexts.KEYS if args.output == "wide" else SHOWN
        rows = [
            ("*" if name == found.current else "", name, *(cell(found, name, k) for k in keys))
            for name in names
        ]
        print_table(("CURRENT", "CONTEXT", *(key.upper() for key in keys)), rows, heads=2)
    return OK


SHOWN = ("target", "tls", "token", "partition", "rm")
"""Of a context in the list of all; in a wide one all keys are shown."""


def cell(found: Contexts, name: str, key: str) -> str:
    """A value for people."""
    values = found.by_name[name]
    if key == "tls":
        return "yes" if any(k.startswith("tls") and values[k] for k in values) else "no"
    return str(values.get(key, "")) or NOTHING


def show_one(found: Contexts, args: argparse.Namespace) -> int:
    """One of them whole."""
    name = args.name or found.current
    if not name:
        say("licorne: no context is in use")
        return NOT_FOUND
    values = found.get(name)
    if args.output in ("json", "yaml"):
        print_data({"name": name, **values}, args.output)
    elif args.output == "name":
        print(f"context/{name}")
    else:
        rows = [("context", name), *((key, str(values[key])) for key in VARIABLES if key in values)]
        print_table(("KEY", "VALUE"), rows)
    return OK


def use(found: Contexts, args: argparse.Namespace) -> int:
    """Commands ask this one from now on."""
    found.get(args.name)
    found.current = args.name
    contexts.write(found)
    say(f"context {args.name} is in use")
    return OK


def delete(found: Contexts, args: argparse.Namespace) -> int:
    """Take one away; what was in use is not any more."""
    found.get(args.name)
    del found.by_name[args.name]
    if found.current == args.name:
        found.current = ""
    contexts.write(found)
    say(f"context {args.name} is deleted")
    return OK


def change(found: Contexts, args: argparse.Namespace) -> int:
    """Make one, or change some of its values; the first one is in use."""
    values = found.by_name.setdefault(args.name, {})
    for key in contexts.KEYS:
        given = getattr(args, key)
        if given == "":
            values.pop(key, None)
        elif given is not None:
            values[key] = contexts.to_write(key, given)
    found.current = found.current or args.name
    contexts.write(found)
    in_use = ", and in use" if found.current == args.name else ""
    say(f"context {args.name} is in {contexts.path()}{in_use}")
    return OK


ACTIONS: dict[str, Callable[[Contexts, argparse.Namespace], int]] = {
    "list": show_all,
    "show": show_one,
    "use": use,
    "delete": delete,
    "set": change,
}

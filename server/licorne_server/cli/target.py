"""Which server a command talks to, as whom, and about which RM and partition by default.

Each value comes from the first place that has it: an option, the context that `--context` names,
the environment, the context in use, the default. A target that an option or the environment names
leaves the context in use out altogether: its token is not for that server.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from licorne_server.cli import contexts
from licorne_server.cli.contexts import ContextError

DEFAULT_PORT = 7070
LOOPBACK = "127.0.0.1"
DEFAULT_TARGET = f"{LOOPBACK}:{DEFAULT_PORT}"
SCHEMES = ("unix:", "dns:", "ipv4:", "ipv6:")
CONTEXT_VARIABLE = "LICORNE_CONTEXT"
VARIABLES = {
    "target": "LICORNE_TARGET",
    "tls": "LICORNE_TLS",
    "tls-ca": "LICORNE_TLS_CA",
    "tls-cert": "LICORNE_TLS_CERT",
    "tls-key": "LICORNE_TLS_KEY",
    "tls-server-name": "LICORNE_TLS_SERVER_NAME",
    "token": "LICORNE_TOKEN_FILE",
    "partition": "LICORNE_PARTITION",
    "rm": "LICORNE_RM",
}
"""The environment's name of each key of a context."""
SWITCHED_ON = ("1", "true", "yes", "on")
DEFAULTS = {"target": DEFAULT_TARGET, "tls": False, "partition": "", "rm": ""}


def with_port(text: str) -> str:
    """A target as gRPC wants it, with our port if it has none.

    ``HOST``, ``HOST:PORT``, ``:PORT`` on this machine, ``::1``, ``[::1]:PORT``. What names one of
    gRPC's own schemes, such as ``unix:/run/licorne``, is left as it is.

    Raises:
        ContextError: it is an address of something else.
    """
    if text.startswith(SCHEMES):
        return text
    if not text or "/" in text or any(letter.isspace() for letter in text):
        raise ContextError(f"{text!r} is no target: HOST or HOST:PORT was expected")
    if text.startswith("["):
        return f"{text}:{DEFAULT_PORT}" if text.endswith("]") else text
    if text.count(":") > 1:
        return f"[{text}]:{DEFAULT_PORT}"
    host, _, port = text.partition(":")
    return f"{host or LOOPBACK}:{port or DEFAULT_PORT}"


def target(text: str) -> str:
    """The type of an argument that is a target; see `with_port`."""
    try:
        return with_port(text)
    except ContextError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def dest(key: str) -> str:
    """The attribute of the parsed arguments that has the value of a key."""
    return "rm_id" if key == "rm" else key.replace("-", "_")


def settle(args: argparse.Namespace) -> None:
    """Give every option of the connection that was left out the value that it has.

    Raises:
        ContextError: a context is not there, the file of contexts cannot be used, or the target is
            none.
    """
    places = [_named_context(args), _environment()]
    if not (args.target or any("target" in place for place in places)) or _named_by_variable(args):
        places.append(_current_context())
    for key in VARIABLES:
        name = dest(key)
        if hasattr(args, name) and getattr(args, name) is None:
            found = next((place[key] for place in places if key in place), DEFAULTS.get(key))
            setattr(args, name, found)
    args.target = with_port(args.target)


def _named_by_variable(args: argparse.Namespace) -> bool:
    return not (args.target or args.context) and bool(os.environ.get(CONTEXT_VARIABLE))


def _named_context(args: argparse.Namespace) -> Mapping[str, Any]:
    return _values(args.context) if args.context else {}


def _current_context() -> Mapping[str, Any]:
    name = os.environ.get(CONTEXT_VARIABLE) or contexts.read().current
    return _values(name) if name else {}


def _values(name: str) -> Mapping[str, Any]:
    found = contexts.read().get(name)
    return {key: contexts.resolved(key, value) for key, value in found.items()}


def _environment() -> Mapping[str, Any]:
    given: dict[str, Any] = {}
    for key, variable in VARIABLES.items():
        text = os.environ.get(variable, "")
        if text:
            is_file = key in contexts.FILES
            given[key] = Path(text) if is_file else text
    if "tls" in given:
        given["tls"] = given["tls"].lower() in SWITCHED_ON
    return given

"""The target of a command, its credentials, and its default RM and partition.

Each value is taken from the first source that has it: an option, the context of `--context`, the environment,
the current context, the default.

The values of a context are only for the context's target, because its token and its certificate must not
reach another server. They are ignored if another source has a different target. If the environment names a
target, its token and its certificate are only for that target. With both `--context` and `--target`, the
values of the context are used for that target.
"""

import argparse
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from licorne.addresses import SCHEMES, is_address
from licorne_cli.connection import contexts
from licorne_cli.connection.contexts import ContextError

DEFAULT_PORT = 7070
LOOPBACK = "127.0.0.1"
DEFAULT_TARGET = f"{LOOPBACK}:{DEFAULT_PORT}"
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
"""The environment variable of each key of a context."""
SWITCHED_ON = ("1", "true", "yes", "on")
DEFAULTS = {"tls": False, "partition": "", "rm": ""}
CREDENTIALS = ("token", "tls-cert", "tls-key")
"""Keys of the credentials of the caller."""


def with_port(text: str) -> str:
    """A target for gRPC, with the default port if it has none.

    Its forms are ``HOST``, ``HOST:PORT``, ``:PORT`` on this machine, ``::1``, ``[::1]:PORT``. Targets of
    gRPC's own schemes, such as ``unix:/run/licorne``, are unchanged. A number alone is not a host.

    Raises:
        ContextError: the text is no target.
    """
    if text.startswith(SCHEMES):
        return text
    whole = text
    if text.endswith("]"):
        whole = f"{text}:{DEFAULT_PORT}"
    elif text.count(":") > 1 and not text.startswith("["):
        whole = f"[{text}]:{DEFAULT_PORT}"
    elif text and not text.startswith("["):
        host, _, port = text.partition(":")
        whole = f"{host or LOOPBACK}:{port or DEFAULT_PORT}"
    if text.isdecimal() or not is_address(whole):
        raise ContextError(f"{text!r} is no target: HOST, :PORT or HOST:PORT was expected")
    return whole


def with_ports(text: str) -> list[str]:
    """The targets in a text, separated by commas; see `with_port`.

    Raises:
        ContextError: one of them is not a target; the error names it.
    """
    return list(dict.fromkeys(with_port(one.strip()) for one in text.split(",")))


def targets(text: str) -> list[str]:
    """The argument type of targets; see `with_ports`."""
    try:
        return with_ports(text)
    except ContextError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def dest(key: str) -> str:
    """The attribute of the parsed arguments for a key."""
    return "rm_id" if key == "rm" else key.replace("-", "_")


def settle(args: argparse.Namespace) -> None:
    """Set every omitted option of the connection.

    `targets` becomes the list of all targets, and `target` their text until one of them is in use. `left_out`
    becomes a sentence about credentials that are not sent, which explains a refusal.

    Raises:
        ContextError: a context does not exist, the file of contexts is unusable, or the target is
            invalid.
    """
    places = _places(args)
    named = (",".join(args.target or ()), *(place.values.get("target") for place in places))
    args.targets = with_ports(str(next(filter(None, named), DEFAULT_TARGET)))
    args.target = ", ".join(args.targets)
    args.left_out = [place.withheld for place in places if place.withholds_from(args.targets)]
    counting = [place.at(args.targets) for place in places]
    options = {key for key in VARIABLES if getattr(args, dest(key), None) is not None}
    for key in VARIABLES.keys() - options:
        if hasattr(args, dest(key)):
            found = next((place[key] for place in counting if key in place), DEFAULTS.get(key))
            setattr(args, dest(key), found)
    _agree(args, options)


def _agree(args: argparse.Namespace, options: Collection[str]) -> None:
    """Resolve a contradiction between the partition's RM and the given RM: an option takes precedence.

    Raises:
        ContextError: both are options; or both a word and an option name an RM.
    """
    named = getattr(args, "rm", "")
    if named and "rm" in options and named != args.rm_id:
        raise ContextError(f"RM {named} is named, and --rm {args.rm_id} is another one")
    partition, rm_id = getattr(args, "partition", ""), getattr(args, "rm_id", "")
    if not (rm_id and partition.startswith("[")) or partition.startswith(f"[{rm_id}]"):
        return
    if {"partition", "rm"} <= set(options):
        raise ContextError(f"--partition {partition} is not one of --rm {rm_id}")
    setattr(args, *("partition", "") if "rm" in options else ("rm_id", ""))


@dataclass(frozen=True, slots=True)
class _OptionSource:
    """A source of values for omitted options.

    The values of the keys in `bound` are only for the targets in `home`, or for any target if `home` is None.
    `name` is used in messages.
    """

    name: str
    values: Mapping[str, Any]
    home: Collection[str] | None
    bound: Collection[str]

    def at(self, targets: Collection[str]) -> Mapping[str, Any]:
        """The values for targets."""
        if self.home is None or all(target in self.home for target in targets):
            return self.values
        return {key: value for key, value in self.values.items() if key not in self.bound}

    def withholds_from(self, targets: Collection[str]) -> bool:
        """True if the source has credentials that are not meant for all of these targets."""
        return any(key in self.values and key not in self.at(targets) for key in CREDENTIALS)

    @property
    def withheld(self) -> str:
        """The sentence for withheld credentials."""
        return f"the credentials of {self.name} are for {', '.join(self.home or ())}, and were not sent"


def _places(args: argparse.Namespace) -> list[_OptionSource]:
    """The sources of values, in order of precedence."""
    given = _environment()
    environment = _OptionSource("the environment", given, _home(given), CREDENTIALS)
    if args.context:
        values = _values(args.context)
        home = None if args.target else _home(values)
        return [_OptionSource(f"context {args.context}", values, home, contexts.KEYS), environment]
    try:
        return [environment, *_current_context()]
    except ContextError:
        if args.target or "target" in given:
            return [environment]
        raise


def _current_context() -> Iterator[_OptionSource]:
    """The current context, if there is one."""
    if name := os.environ.get(CONTEXT_VARIABLE) or contexts.read().current:
        values = _values(name)
        yield _OptionSource(f"context {name}", values, _home(values), contexts.KEYS)


def _home(values: Mapping[str, Any]) -> Collection[str] | None:
    """The targets among the values, or None. Invalid targets are reported only if they are used."""
    named = values.get("target")
    with suppress(ContextError):
        return with_ports(named) if named else None
    return [str(named)]


def _values(name: str) -> Mapping[str, Any]:
    """The values of a context; a context without a target is for the server of this machine."""
    found = {"target": DEFAULT_TARGET, **contexts.read().get(name)}
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

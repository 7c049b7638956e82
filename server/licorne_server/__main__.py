"""The `licorne` command. `serve` is here; the other commands are modules of `cli`."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from licorne_core.config import load
from licorne_core.config.caps import MAX_BYTES
from licorne_core.config.schema import Configuration
from licorne_core.errors import ConfigError
from licorne_server.cli.http_arguments import add_http_arguments, http_settings
from licorne_server.cli.peer_arguments import add_peer_arguments, peer_bounds
from licorne_server.cli.rm_arguments import add_rm_arguments, rm_bounds
from licorne_server.peer_bounds import raise_file_limit
from licorne_server.settings import Address, Settings, SettingsError, Tls
from licorne_server.tokens import token_files

OK = 0
FAILED = 1
COMMANDS = {
    "healthcheck": "exit with 0 if the server here is alive",
    "version": "say which version runs, in which form, and on which Python",
    "validate-config": "check configuration files",
    "demo": "watch a real server schedule three fake resource managers",
    "bench": "measure the core over gRPC",
    "fake-rm": "play a resource manager against a running server",
    "queues": "show queues",
    "apps": "show applications",
    "nodes": "show nodes",
    "rms": "show resource managers, or forget one",
    "users": "show what users or groups have and may have",
    "top": "watch the queues of all partitions",
    "explain": "say why an ask is not placed",
    "events": "show what happened, and what happens",
}


class _Parser(argparse.ArgumentParser):
    """Exits with 1 for wrong usage (DESIGN § 5), where argparse has 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    args = parser_for(given[0] if given else "").parse_args(given)
    if args.command == "serve":
        return _serve(args)
    if args.command == "validate-config":
        from licorne_server.cli import validate_config

        return validate_config.run(args.files, output=args.output, strict=args.strict)
    code: int = _module(args.command).run(args)
    return code


def _module(command: str) -> Any:
    return import_module(f"licorne_server.cli.{command.replace('-', '_')}")


def parser_for(chosen: str) -> argparse.ArgumentParser:
    """A parser that knows all commands by name, and the arguments of the chosen one.

    Only the module of the chosen command is imported, because some take long to import.
    """
    parser = _Parser(prog="licorne", description="A resource scheduler over gRPC.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="serve resource managers"))
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        if name == "validate-config":
            _add_validate_config(command)
        elif name == chosen:
            _module(name).add_arguments(command)
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--listen", default="127.0.0.1:7070", metavar="HOST:PORT", help="gRPC (%(default)s)")
    add_http_arguments(parser)
    add("--config", type=Path, metavar="FILE", help="for RMs that register without a configuration")
    add("--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM")
    add("--tls-key", type=Path, metavar="FILE", help="its key, PEM")
    add("--tls-client-ca", type=Path, metavar="FILE", help="CA of the clients: turns on mutual TLS")
    add(
        "--rm-identity",
        action="append",
        default=[],
        metavar="RM=NAME",
        help="a certificate name that may act for an RM (default: the rmID itself); repeatable",
    )
    add(
        "--operator",
        action="append",
        default=[],
        metavar="NAME",
        help="a certificate name that may see and configure every RM; repeatable",
    )
    add("--insecure", action="store_true", help="serve others without TLS")
    add_peer_arguments(parser)
    add_rm_arguments(parser)
    add("--reflection", action=argparse.BooleanOptionalAction, help="(on without TLS)")
    add(
        "--reservations",
        action=argparse.BooleanOptionalAction,
        default=os.environ.get("DISABLE_RESERVATION", "").lower() != "true",
        help="keep nodes free for asks that wait long (on, unless DISABLE_RESERVATION is true)",
    )
    add("--drain", type=float, default=10.0, metavar="SECONDS", help="at the end (%(default)s)")
    add(
        "--stall",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="probes fail when nothing goes on for so long, and after as long again the process "
        "ends; 0 for never (%(default)s)",
    )
    add("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    add(
        "--log-format",
        default="auto",
        choices=("auto", "console", "json"),
        help="auto is console on a terminal, and json elsewhere (%(default)s)",
    )


def _add_validate_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", default="text", choices=("text", "json", "github"))
    parser.add_argument("--strict", action="store_true", help="warnings are errors")


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings in the arguments of `serve` and in the environment.

    Raises:
        SettingsError: an argument is not usable.
    """
    return Settings(
        listen=Address.parse(args.listen),
        default_config=_default_config(args.config),
        tls=_tls(args),
        insecure=args.insecure,
        **http_settings(args),
        rm_identities=_identities(args.rm_identity),
        operators=frozenset(args.operator),
        rm_tokens=token_files("--rm-token", args.rm_token),
        operator_tokens=tuple(args.operator_token),
        peers=peer_bounds(args),
        rms=rm_bounds(args),
        log_level=args.log_level,
        reflection=args.reflection,
        reservations=args.reservations,
        drain=args.drain,
        stall=args.stall,
        manage_gc=True,
    )


def _default_config(path: Path | None) -> Configuration | None:
    """The configuration in the file that `--config` names.

    Raises:
        SettingsError: the file cannot be read, or what is in it cannot be used.
    """
    if path is None:
        return None
    try:
        return load(_text_of(path))
    except ConfigError as error:
        from licorne_server.cli.validate_config import located

        lines = "\n".join(located(str(path), error.problems))
        raise SettingsError(f"the default configuration is refused:\n{lines}") from None


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)  # one more is enough to see that it is too large
        if len(content) > MAX_BYTES:
            raise SettingsError(f"{path} is larger than {MAX_BYTES} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from None


def _tls(args: argparse.Namespace) -> Tls | None:
    if args.tls_cert is None and args.tls_key is None and args.tls_client_ca is None:
        return None
    if args.tls_cert is None or args.tls_key is None:
        raise SettingsError("--tls-cert and --tls-key are needed together")
    return Tls(cert=args.tls_cert, key=args.tls_key, client_ca=args.tls_client_ca)


def _identities(pairs: Sequence[str]) -> dict[str, frozenset[str]]:
    identities: dict[str, frozenset[str]] = {}
    for pair in pairs:
        rm_id, equals, name = pair.partition("=")
        if not (rm_id and equals and name):
            raise SettingsError(f"--rm-identity: RM=NAME was expected: {pair!r}")
        identities[rm_id] = identities.get(rm_id, frozenset()) | {name}
    return identities


def _serve(args: argparse.Namespace) -> int:
    from licorne_server.logs import process_logs
    from licorne_server.serve import serve

    raise_file_limit()
    try:
        settings = settings_of(args)
        with process_logs(args.log_level, args.log_format) as logs:
            return serve(settings, logs)
    except SettingsError as error:
        if sys.stderr is not None:
            with suppress(OSError):  # stderr may take no more, and the exit code says it too
                print(f"licorne: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())

"""`licorne serve`: arguments into settings, and the server until a signal comes."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import AskBackoff
from licorne_server.commands.serve.http import (
    add_http_arguments,
    add_peer_arguments,
    add_trace_arguments,
    http_settings,
    peer_bounds,
    trace_settings,
)
from licorne_server.commands.serve.rms import add_rm_arguments, rm_bounds
from licorne_server.process.bounds import raise_file_limit
from licorne_server.process.settings import Address, Settings, SettingsError, Tls
from licorne_server.security.tokens import token_files

FAILED = 1
EXAMPLES = (
    ("licorne serve", "for this machine alone"),
    ("licorne serve --config queues.yaml", "with queues for RMs that bring none"),
    (
        "licorne serve --listen :7070 --tls-cert cert.pem --tls-key key.pem --tls-client-ca ca.pem",
        "for others, who show certificates",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne serve`."""
    add = parser.add_argument
    add("--listen", default="127.0.0.1:7070", metavar="HOST:PORT", help="gRPC (%(default)s)")
    add_http_arguments(parser)
    add("--config", type=Path, metavar="FILE", help="for RMs that register without a configuration")
    add(
        "--watch-config",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="read that file again when its content changes (on)",
    )
    add(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="where applied configurations outlive a restart (default: they do not)",
    )
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
    _add_scheduling(parser)
    add("--drain", type=float, default=10.0, metavar="SECONDS", help="at the end (%(default)s)")
    add(
        "--stall",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="probes fail when nothing goes on for so long, and after as long again the process "
        "ends; 0 for never (%(default)s)",
    )
    add(
        "--metrics-queue-names",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="metrics of queues also under names with the queue in them, as older dashboards want (on)",
    )
    add_trace_arguments(parser)
    add("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    add(
        "--log-format",
        default="auto",
        choices=("auto", "console", "json"),
        help="auto is console on a terminal, and json elsewhere (%(default)s)",
    )


def _add_scheduling(parser: argparse.ArgumentParser) -> None:
    """Add the options of decisions, for all RMs."""
    add = parser.add_argument
    add(
        "--reservations",
        action=argparse.BooleanOptionalAction,
        default=os.environ.get("DISABLE_RESERVATION", "").lower() != "true",
        help="keep nodes free for asks that wait long (on, unless DISABLE_RESERVATION is true)",
    )
    backoff = AskBackoff()
    add(
        "--ask-backoff",
        type=float,
        default=backoff.first,
        metavar="SECONDS",
        help="how long an ask waits that its RM could not run; twice as long after each failure "
        "more (%(default)s)",
    )
    add(
        "--ask-backoff-max",
        type=float,
        default=backoff.most,
        metavar="SECONDS",
        help="the longest of these waits (%(default)s)",
    )


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings in the arguments of `serve` and in the environment.

    Raises:
        SettingsError: an argument is not usable.
    """
    return Settings(
        listen=Address.parse(args.listen),
        default_config=_default_config(args.config),
        config_file=args.config,
        watch_config=args.watch_config,
        state_dir=args.state_dir,
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
        ask_backoff=AskBackoff(args.ask_backoff, args.ask_backoff_max),
        drain=args.drain,
        stall=args.stall,
        queue_names=args.metrics_queue_names,
        traces=trace_settings(args, os.environ),
        manage_gc=True,
    )


def _default_config(path: Path | None) -> Configuration | None:
    """The configuration in the file that `--config` names.

    Raises:
        SettingsError: the file cannot be read, or its content is unusable.
    """
    from licorne_server.configurations.reloading import DefaultFileError, load_default

    if path is None:
        return None
    try:
        return load_default(path)
    except DefaultFileError as error:
        raise SettingsError(str(error)) from None


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


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes; returns the exit code."""
    from licorne_server.serving.serve import serve
    from licorne_server.telemetry.logs import process_logs

    raise_file_limit()
    try:
        settings = settings_of(args)
        with process_logs(args.log_level, args.log_format) as flush:
            return serve(settings, flush)
    except SettingsError as error:
        if sys.stderr is not None:
            with suppress(OSError):  # stderr may take no more, and the exit code says it too
                print(f"licorne: {error}", file=sys.stderr)
        return FAILED

"""Flags of `licorne serve`, and the settings from flags, the environment and the file."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from licorne_cli.parsing.parser import Offering
from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import AskBackoff
from licorne_core.values.rm_caps import RmCaps
from licorne_server.commands.settings import default_of
from licorne_server.commands.settings.kinds import SWITCH
from licorne_server.commands.settings.sources import FILE_VARIABLE, Given, Reading, read
from licorne_server.commands.settings.tables import CAPS, KEYS, Bounds, Members, Tables, Telemetry
from licorne_server.process.bounds import EventBounds, PeerBounds, RmBounds
from licorne_server.process.coordination import Coordination
from licorne_server.process.memory import System
from licorne_server.process.settings import Settings, SettingsError, Tls, TraceSettings

FLAGS = {
    **{
        f"--{name.replace('_', '-')}": KEYS[f"server.{name}"]
        for name in (
            *("listen", "http", "metrics", "config", "budgets", "state_dir", "journal", "workers"),
            *("transport", "tls_cert", "tls_key", "tls_client_ca", "insecure", "http_insecure"),
        )
    },
    "--coordination": KEYS["coordination.store"],
    "--advertise": KEYS["coordination.advertise"],
    "--operator": KEYS["access.operators"],
    "--operator-token": KEYS["access.operator_token_files"],
    "--rm-token": KEYS["access.rm_token_files"],
    "--log-level": KEYS["telemetry.log_level"],
    "--log-format": KEYS["telemetry.log_format"],
}
"""The key of each flag, in the order of the help."""

_OTHER_NAMES = {
    "access.viewers": "--viewer",
    "access.rm_identities": "--rm-identity",
    "access.viewer_token_files": "--viewer-token",
    "access.cors_origins": "--cors-origin",
    "access.http_hosts": "--http-host",
    "coordination.name": "--member-name",
    **{f"coordination.{name}": f"--coordination-{name}" for name in ("ca", "cert", "key", "user")},
    "coordination.password_file": "--coordination-password",
}
MOVED = {
    form: path
    for path, key in KEYS.items()
    if key not in FLAGS.values()
    for flag in [_OTHER_NAMES.get(path, f"--{key.name.replace('_', '-')}")]
    for form in ([flag, flag.replace("--", "--no-", 1)] if key.kind is SWITCH else [flag])
}
"""Flags that are refused, each with the key that replaced it."""


PATHS = ("FILE", "DIR")
"""Kinds of values for which a shell completes file names."""


class _Moved(argparse.Action):
    """Action of a flag that was replaced by a key: it refuses the flag."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, __: object, flag: str | None = None
    ) -> NoReturn:
        parser.error(f"{flag} is {MOVED[str(flag)]} in the file of --settings")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all flags, in order of the help."""
    add = parser.add_argument
    text = f"a file with all settings, as licorne settings prints it (default: {FILE_VARIABLE})"
    add("--settings", type=Path, metavar="FILE", help=text)
    for flag, key in FLAGS.items():
        # A % begins a variable of argparse.
        dest, kind, what = key.path, key.kind, key.what.replace("%", "%%")
        if kind is SWITCH:
            add(flag, dest=dest, action="store_const", const="true", help=what)
        elif kind.several:
            add(flag, dest=dest, action="append", metavar=kind.metavar, help=f"{what}; repeatable")
        else:
            usual = default_of(key).strip('"')
            text = f"{what} ({usual})"
            read = str if kind.metavar in PATHS else Offering(str, kind.words)
            add(flag, dest=dest, type=read, metavar=kind.metavar, help=text)
    add(*MOVED, action=_Moved, nargs="?", help=argparse.SUPPRESS)


def reading_of(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Reading:
    """The values from flags, environment and file.

    Raises:
        SettingsError: a value is unusable.
    """
    file = args.settings or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    flags = {
        key.path: Given(flag, text if key.kind.several else key.kind.of_text(text))
        for flag, key in FLAGS.items()
        if (text := getattr(args, key.path)) is not None
    }
    # With a file, problems name keys of the file; without a file, flags.
    names = {} if file else {key.path: flag for flag, key in FLAGS.items()}
    return read(flags, environ, file, names)


def settings_of(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a server.

    Raises:
        SettingsError: a value is unusable.
    """
    return build(reading_of(args, environ).tables)


def build(tables: Tables) -> Settings:
    """Build the settings of a server in a process of its own.

    Raises:
        SettingsError: the file of a configuration is unusable.
    """
    server, access, bounds = tables.server, tables.access, tables.bounds
    tls = None
    if server.tls_cert is not None and server.tls_key is not None:
        tls = Tls(cert=server.tls_cert, key=server.tls_key, client_ca=server.tls_client_ca)
    return Settings(
        listen=server.listen,
        http=server.http,
        metrics=server.metrics,
        default_config=_default_config(server.config),
        config_file=server.config,
        watch_config=server.watch_config,
        budgets_file=server.budgets,
        state_dir=server.state_dir,
        journal=server.journal,
        journal_size=server.journal_size,
        tls=tls,
        insecure=server.insecure,
        http_insecure=server.http_insecure,
        metrics_insecure=server.http_insecure or server.metrics_insecure,
        cors_origins=frozenset(access.cors_origins),
        http_hosts=frozenset(access.http_hosts),
        rm_identities={rm_id: frozenset(names) for rm_id, names in access.rm_identities.items()},
        operators=frozenset(access.operators),
        viewers=frozenset(access.viewers),
        rm_tokens=access.rm_token_files,
        operator_tokens=access.operator_token_files,
        viewer_tokens=access.viewer_token_files,
        coordination=_coordination(tables.coordination),
        member_ca=tables.coordination.member_ca,
        peers=PeerBounds(
            first_message=bounds.first_message, idle=bounds.idle, connections=bounds.max_connections
        ),
        rms=_rm_bounds(bounds),
        reflection=server.reflection,
        reservations=tables.scheduling.reservations,
        ask_backoff=AskBackoff(tables.scheduling.ask_backoff, tables.scheduling.ask_backoff_max),
        transport=server.transport,
        drain=server.drain,
        stall=server.stall,
        queue_names=tables.telemetry.metrics_queue_names,
        traces=_traces(tables.telemetry),
        manage_gc=True,
    )


def _default_config(path: Path | None) -> Configuration | None:
    """The configuration in a file; None without a file.

    Raises:
        SettingsError: the file cannot be read, or its content is unusable.
    """
    from licorne_server.store.configurations.default_file import DefaultFileError, load_default

    if path is None:
        return None
    try:
        return load_default(path)
    except DefaultFileError as error:
        raise SettingsError(str(error)) from None


def _coordination(members: Members) -> Coordination | None:
    if members.store is None:
        return None
    texts = {name: getattr(members, name) or "" for name in ("advertise", "advertise_http", "name", "user")}
    same = {name: getattr(members, name) for name in ("renew", "ca", "cert", "key")}
    given: dict[str, Any] = {**texts, **same, "password": members.password_file}
    return replace(members.store, lease=members.lease_seconds, **given)


def _rm_bounds(bounds: Bounds) -> RmBounds:
    limit = System().usual_limit() if bounds.max_memory is None else bounds.max_memory
    memory = bounds.max_rm_memory
    if memory is None:
        # One RM must not use up the memory limit.
        memory = min(CAPS.memory, limit // 2) if limit else CAPS.memory
    counted = ("partitions", "queues", "nodes", "applications", "asks", "ended", "ended_memory")
    return RmBounds(
        number=bounds.max_rms,
        each=RmCaps(memory=memory, **{name: getattr(bounds, f"max_{name}") for name in counted}),
        events=EventBounds(seconds=bounds.event_seconds, memory=bounds.event_memory),
        memory=limit,
        plan_pause=bounds.max_plan_pause,
        forget_after=bounds.forget_after,
    )


def _traces(telemetry: Telemetry) -> TraceSettings | None:
    if telemetry.otlp_endpoint is None:
        return None
    return TraceSettings(endpoint=telemetry.otlp_endpoint, sample=telemetry.trace_sample)

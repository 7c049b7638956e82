"""The arguments of `serve` about traces, and the standard variables that say the same."""

import argparse
from collections.abc import Mapping

from licorne_server.process.settings import SettingsError
from licorne_server.telemetry.tracing.settings import USUAL_SAMPLE, TraceSettings

OPTION = "--otlp-endpoint"
OWN_VARIABLE = "LICORNE_OTLP_ENDPOINT"
STANDARD_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables of every program with OpenTelemetry; the first that is set counts."""
PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
"""The one protocol in which spans are sent."""
OFF_VARIABLE = "OTEL_SDK_DISABLED"
"""With `true` the standard variables are not looked at."""


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    add = parser.add_argument
    add(
        OPTION,
        metavar="URL",
        help="trace to this collector, which takes OTLP over HTTP; empty for no traces "
        f"(default: {OWN_VARIABLE} or {STANDARD_VARIABLES[1]}, or else no traces)",
    )
    add(
        "--trace-sample",
        type=float,
        default=USUAL_SAMPLE,
        metavar="SHARE",
        help="from 0 to 1: the share that is traced of asks whose caller does not say, and of "
        "turns (%(default)s)",
    )


def trace_settings(args: argparse.Namespace, environ: Mapping[str, str]) -> TraceSettings | None:
    """The trace settings of arguments and environment; None for no traces.

    Raises:
        SettingsError: the environment wants another protocol.
    """
    named_by, endpoint = _endpoint(args, environ)
    if not endpoint:
        return None
    if named_by in STANDARD_VARIABLES:
        _check_protocol(environ)
    return TraceSettings(endpoint=endpoint, sample=args.trace_sample, named_by=named_by)


def _endpoint(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, str]:
    """The source of the endpoint, and the endpoint; empty for no traces."""
    if args.otlp_endpoint is not None:
        return OPTION, args.otlp_endpoint
    names = [OWN_VARIABLE]
    if environ.get(OFF_VARIABLE, "").lower() != "true":
        names += STANDARD_VARIABLES
    return next(((name, environ[name]) for name in names if environ.get(name)), (OPTION, ""))


def _check_protocol(environ: Mapping[str, str]) -> None:
    """Refuse an endpoint of the environment that takes another protocol.

    Raises:
        SettingsError: with what to do about it.
    """
    name = next((name for name in PROTOCOL_VARIABLES if environ.get(name)), "")
    if name and environ[name] != PROTOCOL:
        raise SettingsError(
            f"{name} is {environ[name]!r}, but spans are sent by {PROTOCOL} only: name a collector "
            f"that takes it by {OPTION}, or have no traces by {OPTION} ''"
        )

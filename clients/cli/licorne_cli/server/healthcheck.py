"""`licorne healthcheck`: the liveness of a server as an exit code, for containers and scripts."""

import argparse
import ssl
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from licorne_cli.connection.certificates import TRUST, is_of_unknown_authority
from licorne_cli.output.text import printable

EXAMPLES = (
    ("licorne healthcheck", "the server of this machine, with TLS or without"),
    (
        "licorne healthcheck --url https://core:9080/readyz --tls-ca ca.pem",
        "another one, and whether it is ready",
    ),
)
OK = 0
FAILED = 1
USAGE = 1

HERE = ("http://127.0.0.1:9080/livez", "https://127.0.0.1:9080/livez")
"""Default URLs, tried in order: the server of this machine, without TLS and with TLS."""

PATIENCE = 3.0
"""Timeout in seconds."""

MOST_READ = 1024
"""Maximum number of bytes of an answer that are read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the URL and the options for certificates."""
    parser.add_argument("--url", help=f"what to ask ({HERE[0]}, or the same with TLS)")
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help="trust this authority (PEM)")
    parser.add_argument(
        "--tls-skip-verify", action="store_true", help="trust whoever answers, as a kubelet does"
    )


def run(args: argparse.Namespace) -> int:
    """Query the server; returns 0 if it reports that it is alive."""
    try:
        context = _context(args.tls_ca, skip=args.tls_skip_verify or args.url is None)
    except OSError as error:
        print(f"licorne: --tls-ca {args.tls_ca}: {error.strerror or error}", file=sys.stderr)
        return USAGE
    problems: list[str] = []
    for url in HERE if args.url is None else (args.url,):
        problem = _problem(url, context)
        if not problem:
            return OK
        problems.append(f"licorne: {url}: {problem}")
    print(*problems, sep="\n", file=sys.stderr)
    return FAILED


def _context(authority: Path | None, *, skip: bool) -> ssl.SSLContext:
    """A context that trusts the given authority, the authorities of the system, or any certificate.

    Certificates of this machine are not verified: no data is sent to the server, and its certificate need not
    be for this address.
    """
    context = ssl.create_default_context(cafile=authority)
    if skip and authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _reason(error: urllib.error.HTTPError) -> str:
    """The first line of the answer, with the reason why a server is unhealthy; empty if it has none."""
    try:
        line = error.read(MOST_READ).decode(errors="replace").partition("\n")[0]
    except (OSError, HTTPException):
        return ""
    return f": {printable(line)}" if line else ""


def _problem(url: str, context: ssl.SSLContext) -> str:
    """The reason why the server does not count as alive; empty if it does count."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE, context=context) as response:
            return "" if response.status == 200 else f"status {response.status}"
    except HTTPException:
        return "no HTTP is spoken there; where there is TLS the URL begins with https"
    except urllib.error.HTTPError as error:
        return f"status {error.code}{_reason(error)}"
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            advice = f": {TRUST}" if is_of_unknown_authority(reason) else ""
            return f"certificate verify failed, {reason.verify_message.rstrip('.')}{advice}"
        return getattr(reason, "strerror", None) or str(reason)

"""Options of members that share the RMs, and their conversion to settings."""

import argparse
from dataclasses import replace

from licorne_server.commands.forms import Options
from licorne_server.process.coordination import LEASES, RENEW_SECONDS, Coordination, read_coordination
from licorne_server.process.settings import SettingsError

OPTION_OF = {
    "advertise": "--advertise",
    "advertise_http": "--advertise-http",
    "name": "--member-name",
    "lease": "--lease",
}
"""Options of coordination that are not named after it."""


def add_members(of: Options) -> None:
    """Add options of members that share the RMs."""
    of.add(
        "--coordination",
        metavar="URL",
        help="share the RMs with other members through etcd://HOST:PORT,.../PREFIX or "
        "kubernetes://NAMESPACE/NAME (default: this server is alone)",
    )
    text = "where RMs and other members reach this one (default: the address of --listen)"
    of.add("--advertise", default="", metavar="HOST:PORT", help=text)
    text = "where other members reach its HTTP (default: the address of --http)"
    of.add("--advertise-http", default="", metavar="URL", help=text)
    of.add("--member-name", default="", metavar="NAME", help="for people (default: the advertised address)")
    of.seconds(
        "--renew",
        RENEW_SECONDS,
        "between two renewals of the member's lease; at most a third of it",
    )
    usual = ", ".join(f"{seconds:g} for {backend}" for backend, seconds in LEASES.items())
    of.add(
        "--lease",
        type=float,
        metavar="SECONDS",
        help=f"without a renewal after which a member counts as gone ({usual})",
    )
    of.file("--member-ca", "CA of the other members' certificates (default: that of --tls-client-ca)")
    of.file("--coordination-ca", "CA of the store: turns on TLS to it")
    of.file("--coordination-cert", "certificate chain for the store, PEM")
    of.file("--coordination-key", "its key, PEM")
    of.add("--coordination-user", default="", metavar="NAME", help="user of the store")
    of.file("--coordination-password", "a file with that user's password")


def coordination_of(args: argparse.Namespace) -> Coordination | None:
    """The store and this member's place in it; None for a server that is alone.

    Raises:
        SettingsError: an option is unusable, or makes no sense without a store.
    """
    given = {
        "advertise": args.advertise,
        "advertise_http": args.advertise_http,
        "name": args.member_name,
        "ca": args.coordination_ca,
        "cert": args.coordination_cert,
        "key": args.coordination_key,
        "user": args.coordination_user,
        "password": args.coordination_password,
    }
    if not args.coordination:
        for name, value in (*given.items(), ("lease", args.lease)):
            if value:
                raise SettingsError(f"{OPTION_OF.get(name, f'--coordination-{name}')} needs --coordination")
        return None
    read = read_coordination(args.coordination)
    lease = read.lease if args.lease is None else args.lease
    coordination = replace(read, lease=lease, renew=args.renew, **given)
    problem = coordination.problem()
    if problem:
        raise SettingsError(problem)
    return coordination

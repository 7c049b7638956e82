"""The unit for systemd: what it starts, and what it keeps from the server."""

import shlex
from collections import defaultdict

from licorne_cli.commands import parser_for
from support.docs.checkouts import ROOT

UNIT = ROOT / "deploy/systemd/licorne.service"


def directives() -> dict[str, list[str]]:
    """The values of all directives, by name."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in UNIT.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals:
            found[name].append(value)
    return found


def test_unit_starts_the_server_with_options_that_it_has() -> None:
    """The command line is taken by `licorne serve`."""
    [command] = directives()["ExecStart"]
    program, *arguments = shlex.split(command)
    assert program == "/opt/licorne/bin/licorne"
    args = parser_for("serve").parse_line(arguments)
    assert str(args.state_dir) == "/var/lib/licorne"


def test_unit_keeps_the_machine_from_the_server() -> None:
    """It has the network, its state directory and the calls of a service, and nothing else."""
    expected = {
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "PrivateDevices": "yes",
        "ProtectKernelLogs": "yes",
        "ProtectKernelModules": "yes",
        "ProtectKernelTunables": "yes",
        "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
        "SystemCallArchitectures": "native",
        "SystemCallFilter": "@system-service",
        "UMask": "0077",
        "CapabilityBoundingSet": "",
    }
    assert {name: directives()[name] for name in expected} == {
        name: [value] for name, value in expected.items()
    }

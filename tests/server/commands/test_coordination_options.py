"""Options of coordination: the settings that they make, and the refusals of those that cannot work."""

import pytest

from licorne_cli.commands import main

REFUSED = [
    ("--coordination", "consul://h:1", "etcd://HOST:PORT,.../PREFIX"),
    ("--coordination", "etcd://h1:2379,h2/p", "HOST:PORT was expected for each server of etcd: 'h2'"),
    ("--coordination", "etcd://u:p@h1:2379", "no user precede"),
    ("--coordination", "local:", "the path of a socket is missing"),
    (
        "--coordination",
        "local:s",
        "--advertise",
        "unix:a",
        "and --advertise-http unix:PATH",
    ),
    ("--coordination", "local:s", "--advertise-http", "unix:a", "needs --advertise unix:PATH"),
    ("--coordination", "etcd://h:1", "--lease", "1", "--lease must be from 2 to 600 seconds: 1"),
    ("--coordination", "etcd://h:1", "--renew", "3", "--renew must be above 0, and at most 2"),
    ("--coordination", "etcd://h:1", "--advertise", "0.0.0.0:7070", "--advertise: HOST:PORT was expected"),
    ("--coordination", "etcd://h:1", "--coordination-user", "ann", "--coordination-password are needed"),
    ("--coordination", "etcd://h:1", "--coordination-cert", "c.pem", "--coordination-key are needed"),
    ("--coordination", "etcd://h:1", "--state-dir", "state", "--state-dir cannot be used"),
    ("--coordination", "etcd://h:1", "--listen", ":0", "--insecure", "needs --advertise HOST:PORT"),
    ("--advertise", "h:7070", "--advertise needs --coordination"),
    ("--coordination-ca", "ca.pem", "--coordination-ca needs --coordination"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: " ".join(case[:-1]))
def test_coordination_that_cannot_work_is_refused(
    case: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The server does not start, and says which option is wrong and what it should be."""
    *options, said = case
    assert main(["serve", *options]) == 1
    assert said in capsys.readouterr().err

"""Every key of the settings: its values, effects and refusals."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from licorne_core.config import DEFAULT_CONFIG
from licorne_server.commands.serve_options import build
from licorne_server.commands.settings import lines
from licorne_server.commands.settings.kinds import written
from licorne_server.commands.settings.sources import read
from licorne_server.commands.settings.tables import KEYS, Tables
from licorne_server.process.memory import System
from licorne_server.process.settings import SettingsError

STORE = ("coordination.store", "etcd://h1:2379,h2:2380/p")
VALUES: dict[str, tuple[Any, str]] = {
    "server.listen": ("0.0.0.0:1", "0.0.0.0:1"),
    "server.http": ("off", "off"),
    "server.metrics": ("127.0.0.1:9", "127.0.0.1:9"),
    "server.tls_cert": ("cert.pem", "cert.pem"),
    "server.tls_key": ("key.pem", "key.pem"),
    "server.tls_client_ca": ("ca.pem", "ca.pem"),
    "server.insecure": (True, "true"),
    "server.http_insecure": (True, "True"),
    "server.metrics_insecure": (True, "true"),
    "server.transport": ("grpc", "grpc"),
    "server.reflection": (False, "false"),
    "server.workers": (3, "3"),
    "server.config": ("queues.yaml", "queues.yaml"),
    "server.budgets": ("budgets.yaml", "budgets.yaml"),
    "server.watch_config": (False, "false"),
    "server.state_dir": ("state", "state"),
    "server.journal": ("journal", "journal"),
    "server.journal_size": ("2Mi", "2Mi"),
    "server.drain": (0, "0"),
    "server.stall": (2.5, "2.5"),
    "access.operators": (["ann", "bob"], "ann, bob"),
    "access.viewers": (["ann"], "ann"),
    "access.rm_identities": ({"a": ["x", "y"], "b": ["z"]}, "a=x, b=z, a=y"),
    "access.operator_token_files": (["one", "two"], "one,two"),
    "access.viewer_token_files": (["one"], "one"),
    "access.rm_token_files": ({"a": ["x=y"]}, "a=x=y"),
    "access.cors_origins": (["https://ui.example:8443", "*"], "https://ui.example:8443,*"),
    "access.http_hosts": (["https://x.y:8443"], "https://x.y:8443"),
    "coordination.store": (STORE[1], STORE[1]),
    "coordination.advertise": ("h:7070", "h:7070"),
    "coordination.advertise_http": ("http://h:9080", "http://h:9080"),
    "coordination.name": ("one", "one"),
    "coordination.lease": (60, "60"),
    "coordination.renew": (2, "2"),
    "coordination.member_ca": ("ca.pem", "ca.pem"),
    "coordination.ca": ("ca.pem", "ca.pem"),
    "coordination.cert": ("cert.pem", "cert.pem"),
    "coordination.key": ("key.pem", "key.pem"),
    "coordination.user": ("ann", "ann"),
    "coordination.password_file": ("secret", "secret"),
    "bounds.max_connections": (99, "99"),
    "bounds.first_message": (5, "5"),
    "bounds.idle": (7.5, "7.5"),
    "bounds.max_memory": (0, "0"),
    "bounds.max_plan_pause": (0.2, "0.2"),
    "bounds.max_rms": (3, "3"),
    "bounds.forget_after": (1.5, "1.5"),
    "bounds.max_partitions": (4, "4"),
    "bounds.max_queues": (5, "5"),
    "bounds.max_nodes": (6, "6"),
    "bounds.max_applications": (7, "7"),
    "bounds.max_asks": (8, "8"),
    "bounds.max_ended": (9, "9"),
    "bounds.max_rm_memory": ("512Mi", "512Mi"),
    "bounds.max_ended_memory": (3072, "3Ki"),
    "bounds.event_seconds": (2.5, "2.5"),
    "bounds.event_memory": ("1Gi", "1Gi"),
    "scheduling.reservations": (False, "FALSE"),
    "scheduling.ask_backoff": (3, "3"),
    "scheduling.ask_backoff_max": (5, "5"),
    "telemetry.log_level": ("debug", "debug"),
    "telemetry.log_format": ("json", "json"),
    "telemetry.otlp_endpoint": ("http://a", "http://a"),
    "telemetry.trace_sample": (1, "1"),
    "telemetry.metrics_queue_names": (False, "false"),
}
"""A value of each key other than its default, in the file and in a variable."""

PAIRS = {
    "server.tls_cert": "server.tls_key",
    "server.tls_key": "server.tls_cert",
    "coordination.cert": "coordination.key",
    "coordination.key": "coordination.cert",
    "coordination.user": "coordination.password_file",
    "coordination.password_file": "coordination.user",
}
"""Keys that have to be set together."""
BESIDE = {
    "server.tls_client_ca": ("server.tls_cert", "server.tls_key"),
    "telemetry.trace_sample": ("telemetry.otlp_endpoint",),
    **{
        path: ("coordination.store",)
        for path in KEYS
        if path.startswith("coordination.") and path != STORE[0]
    },
}
"""Keys that need other keys."""

OF_THE_PROCESS = ("server.workers", "telemetry.log_level", "telemetry.log_format")
"""Keys of the process that are no settings of a server."""

SECONDS = "expected a number of seconds"
REFUSED: dict[str, tuple[str, list[Any]]] = {
    "server.listen": ("expected HOST:PORT", ["", "localhost:99999", "a:b", 7070]),
    "server.http": ("expected HOST:PORT, or off", ["a:b", False, ":"]),
    "server.metrics": ("expected HOST:PORT, or off", ["9081", 9081]),
    "server.insecure": ("expected true or false", [1, "yes", "true"]),
    "server.transport": ("expected one of auto, grpc, loop", ["rust", True]),
    "server.reflection": ("expected true or false, or auto", ["off", 0]),
    "server.workers": ("expected a whole number, 1 to 256, or auto", [0, 257, 2.5, "many", True]),
    "server.config": ("expected the path of a file, or off", ["", 3, ["a"]]),
    "server.state_dir": ("expected the path of a directory, or off", ["", "a\nb"]),
    "server.journal_size": ("expected bytes, 1048576 or more", [0, 1048575, "1Ki", "1.5Gi", 1.5e9 + 0.5]),
    "server.drain": (f"{SECONDS}, 0 or more", [-1, float("nan"), float("inf"), "10s", True]),
    "access.operators": ("expected a list, each a name", ["ann", [1], [""], [["ann"]]]),
    "access.rm_identities": (
        "expected lists by rmID, such as {rm1 = [NAME]}, or RM=NAME",
        ["a=x", ["a"], ["=x"], ["a="], {"a": "x"}, {"": ["x"]}],
    ),
    "access.cors_origins": (
        "expected a list, each an origin such as https://ui.example:8443, or *",
        [
            *([""], ["ui.example"], ["https://"], ["https://ui.example/"], ["https://*.example"]),
            *(["https://UI.example"], ["ftp://ui.example"], ["null"], ["https://a.b, https://c.d"]),
        ],
    ),
    "access.http_hosts": (
        "expected a list, each a name such as licorne.example or https://x.y:8443, or *",
        [
            *(
                [""],
                ["ftp://x"],
                ["http://"],
                [":80"],
                ["*.x"],
                ["a b"],
                ["a,b"],
                ["x/y"],
                ["\u00fc.example"],
            ),
            *(["x:"], ["x:0"], ["x:65536"], ["x:\u0663"], ["x:80:80"]),
        ],
    ),
    "coordination.lease": (f"{SECONDS}, 2 to 600, or auto", [1, 601, "6"]),
    "coordination.renew": (f"{SECONDS} above 0", [0, -1, float("nan")]),
    "bounds.max_connections": ("expected a whole number, 16 or more", [15, "16", 2**63]),
    "bounds.max_memory": (
        "expected bytes, 0 or more, as a number or such as 512Mi, or auto",
        ["", "Gi", "1.5Gi", "-1", -1, "2GB", "2 Gi", "1GiMi", "9" * 30],
    ),
    "bounds.max_rm_memory": ("expected bytes, 1 or more, as a number or such as 512Mi, or auto", [0]),
    "bounds.max_asks": ("expected a whole number, 1 or more", [0, -5, 1.5]),
    "telemetry.otlp_endpoint": (
        "expected the http or https address of a collector, such as http://127.0.0.1:4318, or off",
        ["collector:4318", "ftp://a", "http://", "http://a:x", "http://a:0", "http://a?b=c", ""],
    ),
    "telemetry.trace_sample": ("expected a number from 0 to 1", [1.5, -0.1, float("nan")]),
}
"""Invalid values of keys, with the error. Keys of one kind have the same errors."""

STORES = {
    **dict.fromkeys(
        ("consul://h:1", "local:s"), "etcd://HOST:PORT,.../PREFIX or kubernetes://NAMESPACE/NAME was expected"
    ),
    "etcd://h1:2379,h2/p": "HOST:PORT was expected for each server of etcd, and not 'h2'",
    "etcd://u:p@h1:2379": "nothing may follow the prefix, and no user precede",
}

TOGETHER = [
    ({"server.tls_cert": "c"}, "server.tls_cert and server.tls_key are needed together"),
    ({"server.tls_client_ca": "c"}, "server.tls_client_ca needs server.tls_cert and server.tls_key"),
    (
        {"server.journal": "j", "server.journal_size": "3Mi", "server.workers": 4},
        "server.journal_size must be 1048576 bytes or more for each process: 786432",
    ),
    ({"coordination.advertise": "h:7070"}, "coordination.advertise needs coordination.store"),
    ({"coordination.ca": "ca.pem"}, "coordination.ca needs coordination.store"),
    (
        dict([STORE]) | {"coordination.cert": "c"},
        "coordination.cert and coordination.key are needed together",
    ),
    (
        dict([STORE]) | {"coordination.user": "ann"},
        "coordination.user and coordination.password_file are needed together",
    ),
    (
        dict([STORE]) | {"coordination.renew": 3},
        "coordination.renew must be at most 2, a third of the lease: 3",
    ),
    (
        dict([STORE]) | {"coordination.advertise": "0.0.0.0:7070"},
        "coordination.advertise: HOST:PORT was expected, of a host that others reach: '0.0.0.0:7070'",
    ),
    ({"coordination.renew": 2}, "coordination.renew needs coordination.store"),
    (
        {"scheduling.ask_backoff": 61},
        "scheduling.ask_backoff_max must not be below scheduling.ask_backoff, 61: 60",
    ),
]
"""Keys of one table that exclude each other."""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with a fixed amount of memory, and a folder with a configuration."""
    monkeypatch.setattr(System, "usual_limit", lambda _: 2**33)
    (tmp_path / "queues.yaml").write_text(DEFAULT_CONFIG)


def file_of(folder: Path, said: dict[str, Any]) -> Path:
    """A file with these settings, given by ``table.key``."""
    file = folder / "licorne.toml"
    tables: dict[str, list[str]] = {}
    for path, value in said.items():
        table, _, key = path.partition(".")
        tables.setdefault(table, []).append(f"{key} = {written(value)}\n")
    file.write_text("".join(f"[{name}]\n{''.join(keys)}" for name, keys in tables.items()), "utf-8")
    return file


def tables_of(folder: Path, said: dict[str, Any]) -> Tables:
    """The tables of a file with these settings."""
    return read({}, {}, file_of(folder, said)).tables


def test_every_key_has_a_tested_value() -> None:
    """Each key of the settings has a value in the table of this test."""
    assert VALUES.keys() == KEYS.keys()


@pytest.mark.parametrize("path", KEYS)
def test_every_key_has_an_effect(path: str, tmp_path: Path) -> None:
    """With another value of a key, the server or the process around it has other settings."""
    beside = {other: VALUES[other][0] for other in BESIDE.get(path, ())}
    if path in PAIRS:
        beside |= {PAIRS[path]: "same", path: "other"}
    without = tables_of(tmp_path, beside)
    changed = tables_of(tmp_path, {**beside, path: VALUES[path][0]})
    assert changed != without
    assert (build(changed) != build(without)) is (path not in OF_THE_PROCESS)


@pytest.mark.parametrize("path", KEYS)
def test_a_variable_equals_the_key_of_the_file(path: str, tmp_path: Path) -> None:
    """Each key has a variable, whose text has the same meaning."""
    key = KEYS[path]
    value, text = VALUES[path]
    assert key.variable == f"LICORNE_{path.replace('.', '_').upper()}"
    beside = {other: VALUES[other][0] for other in (*BESIDE.get(path, ()), *filter(None, [PAIRS.get(path)]))}
    file = file_of(tmp_path, beside)
    by_variable = read({}, {key.variable: text}, file).tables
    in_file = read({}, {}, file_of(tmp_path, {**beside, path: value})).tables
    # Paths in a file are relative to its folder.
    assert repr(by_variable).replace(f"{tmp_path}/", "") == repr(in_file).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [(path, value, said) for path, (said, values) in REFUSED.items() for value in values],
)
def test_an_invalid_value_is_refused(path: str, value: Any, said: str, tmp_path: Path) -> None:
    """The error has file, table, key, the expected form and the value."""
    file = file_of(tmp_path, {path: value})
    with pytest.raises(SettingsError) as refused:
        read({}, {}, file)
    assert str(refused.value).startswith(f"{file}: {path}: {said}")
    shown = written(value)
    assert str(refused.value).endswith(f": {shown}") or len(shown) > 64


@pytest.mark.parametrize("url", STORES)
def test_an_invalid_address_of_a_store_is_refused(url: str, tmp_path: Path) -> None:
    """The error names the invalid part of the address."""
    file = file_of(tmp_path, {STORE[0]: url})
    with pytest.raises(SettingsError) as refused:
        read({}, {}, file)
    told = url.replace("u:p@", "…@")
    assert str(refused.value) == f'{file}: coordination.store: {STORES[url]}: "{told}"'


@pytest.mark.parametrize(("said", "text"), TOGETHER)
def test_contradicting_keys_are_refused(said: dict[str, Any], text: str, tmp_path: Path) -> None:
    """The error names all keys of the contradiction."""
    with pytest.raises(SettingsError) as refused:
        tables_of(tmp_path, said)
    assert str(refused.value) == text


def test_the_printed_settings_are_the_defaults(tmp_path: Path) -> None:
    """`licorne settings` prints all keys as comments with their defaults."""
    printed = "\n".join(lines())
    keys = {f"{table}.{key}" for table, keys in uncommented(printed).items() for key in keys}
    assert keys == KEYS.keys()
    for text in (printed, re.sub("^#(?! )", "", printed, flags=re.MULTILINE)):
        file = tmp_path / "licorne.toml"
        file.write_text(text, "utf-8")
        assert read({}, {}, file).tables == Tables()


def uncommented(text: str) -> dict[str, Any]:
    """The document with its commented keys in force."""
    return tomllib.loads(re.sub("^#(?! )", "", text, flags=re.MULTILINE))

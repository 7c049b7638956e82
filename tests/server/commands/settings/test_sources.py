"""Flags, variables and the file of settings: their precedence and refusals."""

from argparse import ArgumentParser
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from licorne_cli.commands import main, parser_for
from licorne_server.commands.serve import warn_of
from licorne_server.commands.serve_options import FLAGS, MOVED, add_arguments, build, reading_of, settings_of
from licorne_server.commands.settings.sources import Reading, named, without_settings
from licorne_server.commands.settings.tables import KEYS
from licorne_server.process.memory import MAX_WORKERS
from licorne_server.process.settings import USUAL_SAMPLE, Settings, SettingsError
from support.server.settings_file import settings_file

OWN = "LICORNE_TELEMETRY_OTLP_ENDPOINT"
STANDARD = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
SDK_OFF = "OTEL_SDK_DISABLED"


def reading(*arguments: str, **variables: str) -> Reading:
    """The settings that `serve` reads."""
    return reading_of(parser_for("serve").parse_args(["serve", *arguments]), variables)


def settings(*arguments: str, **variables: str) -> Settings:
    """The settings for these arguments of `serve`."""
    return settings_of(parser_for("serve").parse_args(["serve", *arguments]), variables)


def problem(*arguments: str, **variables: str) -> str:
    """The reason why `serve` does not start."""
    try:
        read = reading(*arguments, **variables)
    except SettingsError as error:
        return str(error)
    with pytest.raises(SettingsError) as refused:
        refuse(read)
    return named(refused.value, read.names)


def refuse(read: Reading) -> None:
    """Refuse the settings, as a server would."""
    build(read.tables).check()


def test_few_settings_have_flags() -> None:
    """The number of flags is small; all other settings are in the file."""
    assert len(FLAGS) + len(["--settings"]) == 22
    assert FLAGS.keys().isdisjoint(MOVED)
    assert {*MOVED.values(), *(key.path for key in FLAGS.values())} == KEYS.keys()


def test_flags_precede_variables_and_variables_the_file() -> None:
    """Flag, variable, file and default have this precedence; a list is replaced, not extended."""
    file = settings_file(server={"listen": "127.0.0.1:1", "drain": 7}, access={"operators": ["a"]})
    variable = {"LICORNE_SERVER_LISTEN": "127.0.0.1:2", "LICORNE_ACCESS_OPERATORS": "b,c"}
    listens = [
        settings(),
        settings(*file),
        settings(*file, **variable),
        settings(*file, "--listen", ":3", **variable),
    ]
    assert [each.listen.port for each in listens] == [7070, 1, 2, 3]
    assert [each.drain for each in listens] == [10, 7, 7, 7]
    assert [sorted(each.operators) for each in listens] == [[], ["a"], ["b", "c"], ["b", "c"]]
    assert settings(*file, "--operator", "d", "--operator", "e", **variable).operators == {"d", "e"}


def test_a_variable_may_name_the_file() -> None:
    """The variable names the file of settings unless the flag does, so a service needs no arguments."""
    [_, one], other = settings_file(server={"drain": 1}), settings_file(server={"drain": 2})
    assert settings(LICORNE_SETTINGS=one).drain == 1
    assert settings(*other, LICORNE_SETTINGS=one).drain == 2


def test_an_empty_variable_counts_as_unset() -> None:
    """An empty variable, which a compose file passes for an unset one, has no effect."""
    assert settings(LICORNE_SERVER_LISTEN="", LICORNE_SETTINGS="", LICORNE_ACCESS_VIEWERS="") == settings()


def test_paths_of_a_file_are_relative_to_its_folder(tmp_path: Path) -> None:
    """Paths of a file are relative to its folder, and those of flags and variables to the current one."""
    file = tmp_path / "licorne.toml"
    file.write_text('[server]\nstate_dir = "state"\n[access]\noperator_token_files = ["one", "/two"]\n')
    given = settings("--settings", str(file))
    assert given.state_dir == tmp_path / "state"
    assert given.operator_tokens == (tmp_path / "one", Path("/two"))
    assert settings("--settings", str(file), "--state-dir", "here").state_dir == Path("here")
    assert settings("--settings", str(file), LICORNE_SERVER_STATE_DIR="here").state_dir == Path("here")


def test_an_error_names_the_source_of_the_value(tmp_path: Path) -> None:
    """The error names flag, variable, or file, table and key; all problems are reported at once."""
    file = tmp_path / "licorne.toml"
    file.write_text("[server]\nlisten = 7070\nworkers = 0\n[bounds]\nmax_asks = 0\nmax_ask = 1\n")
    assert problem("--settings", str(file), "--listen", "a:b", LICORNE_SERVER_WORKERS="x").splitlines() == [
        f"{file}: bounds.max_ask is no key, did you mean bounds.max_asks?",
        '--listen: expected HOST:PORT: "a:b"',
        'LICORNE_SERVER_WORKERS: expected a whole number, 1 to 256, or auto: "x"',
        f"{file}: bounds.max_asks: expected a whole number, 1 or more: 0",
    ]


def test_a_refusal_names_each_key_as_it_was_given() -> None:
    """The refusal uses flag, variable or key; for a default the flag, or the key if there is a file."""
    cert = "LICORNE_SERVER_TLS_CERT"
    assert problem(**{cert: "c"}) == f"{cert} and --tls-key are needed together"
    assert problem("--tls-cert", "c", *settings_file()) == "--tls-cert and server.tls_key are needed together"
    store, state = (
        {"coordination": {"store": "etcd://h:1"}},
        {"LICORNE_SERVER_STATE_DIR": "/coordination.store"},
    )
    text = "LICORNE_SERVER_STATE_DIR cannot be used with coordination.store: the store keeps what is applied"
    assert problem(*settings_file(**store), **state) == text
    said = problem(*settings_file(access={"operator_token_files": ["t"]}), "--listen", ":1", "--insecure")
    assert said.startswith("access.operator_token_files needs TLS on 0.0.0.0:1")


def test_a_flag_disables_the_coordination_of_the_file() -> None:
    """A flag starts a server without coordination, whatever the file says about it."""
    file = settings_file(coordination={"store": "etcd://h:1", "advertise": "h:7070", "lease": 60})
    assert settings(*file).coordination is not None
    assert settings(*file, "--coordination", "off") == settings()


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    """A byte order mark at the beginning of the file, which some editors write, is ignored."""
    file = tmp_path / "licorne.toml"
    file.write_text("[server]\ndrain = 3\n", "utf-8-sig")
    assert settings("--settings", str(file)).drain == 3


def test_meanings_with_a_percent_sign_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The help prints a percent sign in a meaning unchanged."""
    monkeypatch.setitem(FLAGS, "--memory", KEYS["bounds.max_memory"])
    parser = ArgumentParser()
    add_arguments(parser)
    assert "80 % of the machine" in " ".join(parser.format_help().split())


def test_automatic_workers_are_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` gives an allowed number of workers on every machine."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(300))
    assert 1 <= reading("--workers", "auto").tables.server.workers <= MAX_WORKERS


UNKNOWN = {
    "[bound]\nx = 1": "bound is no table, did you mean bounds?",
    "listen = ':1'": "listen is no table, did you mean server.listen?",
    "server = 3": "server is a table, [server]: 3",
    "[bounds]\nmax_ask = 5": "bounds.max_ask is no key, did you mean bounds.max_asks?",
    "[server]\nmax_asks = 5": "server.max_asks is no key, did you mean bounds.max_asks?",
    "[server]\nxyz = 5": "server.xyz is no key",
    "[server": "Expected ']' at the end of a table declaration (at end of document)",
    "[server]\ndrain = 1\ndrain = 2": "Cannot overwrite a value (at end of document)",
}


@pytest.mark.parametrize("text", UNKNOWN, ids=UNKNOWN.values())
def test_unknown_tables_and_keys_are_named(text: str, tmp_path: Path) -> None:
    """An unknown table or key is an error, with the most similar one."""
    file = tmp_path / "licorne.toml"
    file.write_text(text)
    assert problem("--settings", str(file)) == f"{file}: {UNKNOWN[text]}"


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_an_unreadable_file_is_named(content: bytes | None, tmp_path: Path) -> None:
    """A file of settings that is missing, or is no text, is named."""
    file = tmp_path / "licorne.toml"
    if content is not None:
        file.write_bytes(content)
    assert problem("--settings", str(file)).startswith(f"{file}: ")


@pytest.mark.parametrize("flag", MOVED)
def test_a_former_flag_is_refused_with_its_key(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that became a key of the file is refused with that key, whatever its value."""
    for given in ([flag], [flag, "5"], [f"{flag}=5"]):
        with pytest.raises(SystemExit) as ended:
            main(["serve", *given])
        assert ended.value.code == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"licorne serve: {flag} is {MOVED[flag]} in the file of --settings"
        assert MOVED[flag] in KEYS


def test_former_flags_with_other_names_are_recognized() -> None:
    """A former flag whose key has another name is refused with that key."""
    expected = {
        "--max-asks": "bounds.max_asks",
        "--no-reservations": "scheduling.reservations",
        "--rm-identity": "access.rm_identities",
        "--viewer-token": "access.viewer_token_files",
        "--http-host": "access.http_hosts",
        "--member-name": "coordination.name",
        "--coordination-password": "coordination.password_file",
        "--metrics-queue-names": "telemetry.metrics_queue_names",
    }
    assert expected.items() <= MOVED.items()


def test_variables_of_others_are_ignored() -> None:
    """Variables of clients are ignored; an unknown one with our prefix gives a warning with a suggestion."""
    client = {
        "LICORNE_TLS_CERT": "a",
        "LICORNE_TARGET": "b",
        "LICORNE_CONTEXT": "c",
        "LICORNE_TOKEN_FILE": "d",
    }
    given = reading(**client, LICORNE_SERVER_LISTENS=":1", LICORNE_SERVER_SERVICE_HOST="10.0.0.1")
    assert given.tables == reading().tables
    assert given.unknown.keys() == {"LICORNE_SERVER_LISTENS", "LICORNE_SERVER_SERVICE_HOST"}
    assert given.unknown["LICORNE_SERVER_LISTENS"] == "LICORNE_SERVER_LISTEN"


def test_a_variable_without_its_table_gives_a_suggestion() -> None:
    """A variable that lacks the table is recognized by its key, except those shared with clients."""
    given = reading(LICORNE_OTLP_ENDPOINT="http://a", LICORNE_MAX_RMS="3", LICORNE_TLS_CERT="b")
    assert given.unknown == {
        "LICORNE_OTLP_ENDPOINT": "LICORNE_TELEMETRY_OTLP_ENDPOINT",
        "LICORNE_MAX_RMS": "LICORNE_BOUNDS_MAX_RMS",
    }


def test_a_refusal_shows_no_password() -> None:
    """The message about an invalid address does not contain its password."""
    said = problem("--coordination", "etcd://root:secret@h:2379")
    assert "secret" not in said
    assert "h:2379" in said


def test_the_server_of_a_demo_ignores_settings_of_the_operator() -> None:
    """The server of a demo reads neither the file of settings nor the address of a store."""
    theirs = {
        "LICORNE_SETTINGS": "f",
        "LICORNE_COORDINATION_STORE": "etcd://h:1/p",
        "LICORNE_SERVER_DRAIN": "1",
    }
    assert without_settings({**theirs, "PATH": "/bin", "LICORNE_TOKEN_FILE": "t"}) == {
        "PATH": "/bin",
        "LICORNE_TOKEN_FILE": "t",
    }


def test_an_unknown_variable_is_logged() -> None:
    """The server starts with a warning, because Kubernetes sets variables for each service."""
    with capture_logs() as lines:
        warn_of({"LICORNE_SERVER_LISTENS": "LICORNE_SERVER_LISTEN"})
    assert lines == [
        {
            "log_level": "warning",
            "event": "variable sets nothing",
            "variable": "LICORNE_SERVER_LISTENS",
            "meant": "LICORNE_SERVER_LISTEN",
        }
    ]


@pytest.mark.parametrize(
    ("variables", "reserves"),
    [
        ({}, True),
        ({"DISABLE_RESERVATION": "True"}, False),
        ({"DISABLE_RESERVATION": "no"}, True),
        ({"DISABLE_RESERVATION": "true", "LICORNE_SCHEDULING_RESERVATIONS": "true"}, True),
    ],
)
def test_a_variable_of_the_older_core_ends_reservations(variables: dict[str, str], reserves: bool) -> None:
    """The variable of the older core disables reservations, unless Licorne's own is set."""
    assert settings(**variables).reservations is reserves


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "http://f/v1/traces"),
        ({OWN: "http://b/", STANDARD: "http://c"}, "http://b/v1/traces"),
        ({STANDARD: "https://c:4318/x"}, "https://c:4318/x/v1/traces"),
        ({STANDARD: "http://c", TRACES: "http://d/v1/traces"}, "http://d/v1/traces"),
        ({STANDARD: "http://c", SDK_OFF: "true"}, "http://f/v1/traces"),
        ({STANDARD: "http://c", PROTOCOL: "http/protobuf"}, "http://c/v1/traces"),
        ({OWN: "http://a", STANDARD: "http://c", PROTOCOL: "grpc"}, "http://a/v1/traces"),
        ({OWN: "off", STANDARD: "http://c"}, None),
        ({OWN: "", STANDARD: ""}, "http://f/v1/traces"),
    ],
)
def test_variables_precede_the_file_for_traces(variables: dict[str, str], expected: str | None) -> None:
    """Licorne's variable precedes OpenTelemetry's, and both precede the file."""
    found = settings(*settings_file(telemetry={"otlp_endpoint": "http://f"}), **variables).traces
    assert (None if found is None else found.url) == expected
    assert found is None or found.sample == USUAL_SAMPLE


def test_another_protocol_for_traces_is_refused() -> None:
    """OpenTelemetry's variables must have a valid address and the supported protocol."""
    said = problem(**{STANDARD: "http://c:4317", PROTOCOL: "grpc"})
    assert said.startswith(f"{PROTOCOL} is 'grpc', but spans are sent by http/protobuf only")
    assert problem(**{STANDARD: "c:4317"}).startswith(f"{STANDARD}: expected the http or https address")


@pytest.mark.parametrize(("limit", "each"), [("1Gi", 2**29), ("8Gi", 2**32), ("64Gi", 2**32)])
def test_one_rm_may_use_half_of_the_memory(limit: str, each: int) -> None:
    """By default an RM may have half of the process's limit, and at most 4 GiB."""
    assert settings(LICORNE_BOUNDS_MAX_MEMORY=limit).rms.each.memory == each
    both = settings(LICORNE_BOUNDS_MAX_MEMORY=limit, LICORNE_BOUNDS_MAX_RM_MEMORY="7")
    assert both.rms.each.memory == 7


PROBLEMS = {
    "--listen 0.0.0.0:0": "refusing to serve 0.0.0.0:0 without TLS: give --tls-cert and --tls-key, ",
    "--listen :0": "refusing to serve 0.0.0.0:0 without TLS: ",
    "--listen 7070": '--listen: expected HOST:PORT: "7070"',
    "--http [::]:0": "refusing to serve HTTP without TLS on [::]:0: ",
    "--metrics :0": "refusing to serve metrics without TLS on 0.0.0.0:0: ",
    "--config /no/such/file": "cannot read /no/such/file: ",
    "--config /dev/zero": "/dev/zero is larger than 2097152 bytes",
    "--rm-token a": '--rm-token: expected lists by rmID, such as {rm1 = [FILE]}, or RM=FILE: ["a"]',
    "--operator ann": "--operator needs --tls-client-ca",
    "--coordination etcd://h:1 --state-dir state": "--state-dir cannot be used with --coordination",
    "--coordination etcd://h:1 --listen :0 --insecure": "--coordination needs --advertise, because others",
}


@pytest.mark.parametrize(("arguments", "said"), PROBLEMS.items(), ids=PROBLEMS)
def test_unsafe_settings_are_refused(arguments: str, said: str) -> None:
    """Invalid or unsafe settings stop the start, with advice."""
    assert problem(*arguments.split()).startswith(said)


def test_problems_of_the_configuration_name_the_file(tmp_path: Path) -> None:
    """Each problem of the configuration has file, line and column, as in `validate-config`."""
    file = tmp_path / "queues.yaml"
    file.write_text("partitions:\n- name: a\n  queues: [{name: root, hue: 3, parent: 7}]\n")
    head, *problems = problem("--config", str(file)).splitlines()
    assert head == "the default configuration is refused:"
    assert [each.split(": ")[:2] for each in problems] == [
        [f"{file}:3:25", "partitions[0].queues[0].hue"],
        [f"{file}:3:41", "partitions[0].queues[0].parent"],
    ]

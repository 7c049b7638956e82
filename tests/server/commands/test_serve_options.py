"""Arguments of `licorne serve`, converted to settings."""

from pathlib import Path

import pytest

from licorne_cli.commands import parser_for
from licorne_core.config import DEFAULT_CONFIG, load
from licorne_core.values.rm_caps import RmCaps
from licorne_server.commands.serve_options import settings_of
from licorne_server.process.bounds import EventBounds, PeerBounds, RmBounds
from licorne_server.process.memory import System
from licorne_server.process.settings import USUAL_SAMPLE, Settings, SettingsError

LICORNE = "LICORNE_OTLP_ENDPOINT"
STANDARD = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
OFF = "OTEL_SDK_DISABLED"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variables of the test process."""
    for name in (LICORNE, STANDARD, TRACES, PROTOCOL, OFF):
        monkeypatch.delenv(name, raising=False)


def settings(*arguments: str) -> Settings:
    """Settings for arguments of `serve`."""
    return settings_of(parser_for("serve").parse_args(["serve", *arguments]))


def test_problems_of_the_configuration_name_the_file(tmp_path: Path) -> None:
    """Every problem has file, line and column, as in `validate-config`."""
    file = tmp_path / "queues.yaml"
    file.write_text("partitions:\n- name: a\n  queues: [{name: root, hue: 3, parent: 7}]\n")
    with pytest.raises(SettingsError) as refused:
        settings("--config", str(file))
    head, *problems = str(refused.value).splitlines()
    assert head == "the default configuration is refused:"
    assert [problem.split(": ")[:2] for problem in problems] == [
        [f"{file}:3:25", "partitions[0].queues[0].hue"],
        [f"{file}:3:41", "partitions[0].queues[0].parent"],
    ]


def test_configuration_is_parsed_once(tmp_path: Path) -> None:
    """Settings have the parsed configuration, or None for the built-in one."""
    file = tmp_path / "queues.yaml"
    file.write_text(DEFAULT_CONFIG)
    assert settings("--config", str(file)).default_config == load(DEFAULT_CONFIG)
    assert settings().default_config is None


def test_tokens_and_bounds_of_peers() -> None:
    """Token files add up by RM; omitted bounds of peers have their defaults."""
    given = settings(
        *("--rm-token", "a=one", "--rm-token", "a=two", "--rm-token", "b=x=y"),
        *("--operator-token", "op", "--first-message", "5", "--idle", "7.5"),
        *("--max-connections", "99"),
    )
    assert given.rm_tokens == {"a": (Path("one"), Path("two")), "b": (Path("x=y"),)}
    assert given.operator_tokens == (Path("op"),)
    assert given.peers == PeerBounds(first_message=5.0, idle=7.5, connections=99)
    assert settings().peers == PeerBounds()


def test_bounds_of_rms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of RMs are read in any unit; omitted ones have their defaults."""
    monkeypatch.setattr(System, "usual_limit", lambda _: 77)
    given = settings(
        *("--max-rms", "3", "--max-partitions", "4", "--max-queues", "5", "--max-nodes", "6"),
        *("--max-applications", "7", "--max-asks", "8", "--max-ended", "9"),
        *("--max-rm-memory", "512Mi", "--max-ended-memory", "3Ki"),
        *("--max-memory", "2Gi", "--max-plan-pause", "0.2", "--forget-after", "1.5"),
        *("--event-seconds", "2.5", "--event-memory", "1Mi"),
    )
    each = RmCaps(
        partitions=4,
        queues=5,
        nodes=6,
        applications=7,
        asks=8,
        ended=9,
        memory=512 * 2**20,
        ended_memory=3072,
    )
    events = EventBounds(seconds=2.5, memory=2**20)
    assert given.rms == RmBounds(
        number=3, each=each, events=events, memory=2 * 2**30, plan_pause=0.2, forget_after=1.5
    )
    assert settings().rms == RmBounds(memory=77, each=RmCaps(memory=38))
    assert settings("--max-memory", "0").rms == RmBounds(memory=0)


@pytest.mark.parametrize(("limit", "each"), [("1Gi", 2**29), ("8Gi", 2**32), ("64Gi", 2**32)])
def test_one_rm_alone_cannot_use_up_the_memory(limit: str, each: int) -> None:
    """By default an RM may have half of the process's limit, and at most 4 GiB."""
    assert settings("--max-memory", limit).rms.each.memory == each
    assert settings("--max-memory", limit, "--max-rm-memory", "7").rms.each.memory == 7


@pytest.mark.parametrize("text", ["", "Gi", "1.5Gi", "-1", "2GB", "2 Gi", "1GiMi", "9" * 30])
def test_what_is_no_size_is_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid size is a usage error with the expected form."""
    with pytest.raises(SystemExit) as ended:
        settings(f"--max-memory={text}")
    assert ended.value.code == 1
    expected = f"--max-memory: {text} is no size: a whole number, with Ki, Mi, Gi, Ti or none\n"
    assert capsys.readouterr().err.endswith(expected)


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        ((), {}, None),
        (("--otlp-endpoint", "http://a"), {}, "http://a/v1/traces"),
        (("--otlp-endpoint", "http://a"), {LICORNE: "http://b"}, "http://a/v1/traces"),
        ((), {LICORNE: "http://b/", STANDARD: "http://c"}, "http://b/v1/traces"),
        ((), {STANDARD: "https://c:4318/x"}, "https://c:4318/x/v1/traces"),
        ((), {STANDARD: "http://c", TRACES: "http://d/v1/traces"}, "http://d/v1/traces"),
        ((), {STANDARD: "http://c", OFF: "true"}, None),
        ((), {STANDARD: "http://c", PROTOCOL: "http/protobuf"}, "http://c/v1/traces"),
        (("--otlp-endpoint", "http://a"), {PROTOCOL: "grpc"}, "http://a/v1/traces"),
        (("--otlp-endpoint", ""), {LICORNE: "http://b", STANDARD: "http://c"}, None),
        ((), {LICORNE: "", STANDARD: ""}, None),
    ],
)
def test_where_traces_go(
    arguments: tuple[str, ...],
    variables: dict[str, str],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The option overrides Licorne's variable, which overrides the standard variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = settings(*arguments).traces
    assert (None if found is None else found.url) == expected


def test_how_many_there_are() -> None:
    """The default sampling rate is one in a hundred."""
    for arguments, share in (((), USUAL_SAMPLE), (("--trace-sample", "1"), 1.0)):
        found = settings("--otlp-endpoint", "http://a", *arguments).traces
        assert found is not None
        assert found.sample == share


def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint of the environment with another protocol is refused."""
    monkeypatch.setenv(STANDARD, "http://c:4317")
    monkeypatch.setenv(PROTOCOL, "grpc")
    with pytest.raises(SettingsError, match=f"{PROTOCOL} is 'grpc', but spans are sent by"):
        settings()


SECONDS = "must be a number of seconds"
COLLECTOR = "--otlp-endpoint: the http or https address of a collector was expected, such as "
PROBLEMS = {
    "--listen 0.0.0.0:0": "refusing to serve 0.0.0.0:0 without TLS: give --tls-cert and --tls-key, ",
    "--listen :0": "refusing to serve 0.0.0.0:0 without TLS: ",
    "--http [::]:0": "refusing to serve HTTP without TLS on [::]:0: ",
    "--listen localhost:99999": "not an address, HOST:PORT was expected: 'localhost:99999'",
    "--config /no/such/file": "cannot read /no/such/file: ",
    "--config /dev/zero": "/dev/zero is larger than 2097152 bytes",
    "--tls-cert cert.pem": "--tls-cert and --tls-key are needed together",
    "--drain nan": f"drain {SECONDS} from 0 up: nan",
    "--drain -1": f"drain {SECONDS} from 0 up: -1.0",
    "--stall -1": f"stall {SECONDS} from 0 up: -1.0",
    "--rm-identity a": "--rm-identity: RM=NAME was expected: 'a'",
    "--rm-identity a=b": "--rm-identity, --operator and --viewer need --tls-client-ca",
    "--rm-token a": "--rm-token: RM=FILE was expected: 'a'",
    "--rm-token =file": "--rm-token: RM=FILE was expected: '=file'",
    "--first-message 0": f"--first-message {SECONDS} above 0: 0.0",
    "--idle nan": f"--idle {SECONDS} above 0: nan",
    "--max-connections 15": "--max-connections must be 16 or more: 15",
    "--max-rms 0": "--max-rms must be 1 or more: 0",
    "--max-asks -5": "--max-asks must be 1 or more: -5",
    "--max-rm-memory 0": "--max-rm-memory must be 1 or more: 0",
    "--max-ended-memory 0": "--max-ended-memory must be 1 or more: 0",
    "--event-seconds -1": f"--event-seconds {SECONDS} from 0 up: -1.0",
    "--event-seconds nan": f"--event-seconds {SECONDS} from 0 up: nan",
    "--event-memory 0": "--event-memory must be 1 or more: 0",
    "--max-plan-pause -1": f"--max-plan-pause {SECONDS} from 0 up: -1.0",
    "--forget-after inf": f"--forget-after {SECONDS} from 0 up: inf",
    "--otlp-endpoint collector:4318": COLLECTOR,
    "--otlp-endpoint ftp://a": f"{COLLECTOR}http://127.0.0.1:4318: 'ftp://a'",
    "--otlp-endpoint http://": COLLECTOR,
    "--otlp-endpoint http://a:x": COLLECTOR,
    "--otlp-endpoint http://a?b=c": COLLECTOR,
    "--otlp-endpoint http://a --trace-sample 1.5": "--trace-sample must be a number from 0 to 1: 1.5",
    "--otlp-endpoint http://a --trace-sample nan": "--trace-sample must be a number from 0 to 1: nan",
}


@pytest.mark.parametrize(("arguments", "problem"), PROBLEMS.items(), ids=PROBLEMS)
def test_values_that_cannot_be_are_named(arguments: str, problem: str) -> None:
    """Wrong or unsafe settings stop the start, with option and value."""
    with pytest.raises(SettingsError) as refused:
        settings(*arguments.split()).check()
    assert str(refused.value).startswith(problem)

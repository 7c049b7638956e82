"""Advice for calls with TLS to a plain server, and without it to a server with TLS."""

import asyncio
import os
import socket
import ssl
import sys
import threading
from pathlib import Path

import pytest

from licorne.options import TlsConfig
from licorne_cli.connection.certificates import refused_because
from licorne_cli.connection.tls import tls_advice
from support.peers.shim import serving
from support.peers.tls import FILES, tls
from support.peers.town import Shell, Town


@pytest.mark.parametrize("mutual", [True, False])
async def test_a_call_without_tls_names_the_option(capsys: pytest.CaptureFixture[str], mutual: bool) -> None:
    """A server with TLS is unreachable without it; the message names the option with which the call works."""
    async with serving(tls=tls(mutual=mutual)) as server:
        shell = Shell(server.grpc_address, capsys)
        result = await shell("rms")
        assert (result.code, result.out) == (2, "")
        where = server.grpc_address
        advice = f"{where} speaks TLS: give --tls, or --tls-ca FILE"
        assert result.err == f"licorne: cannot reach {where}: {advice}\n"
        if not mutual:
            assert (await shell("rms", "--tls-ca", str(FILES / "ca.pem"))).code == 0


CA = ("--tls-ca", str(FILES / "ca.pem"))
HANGS_UP = "{where} hangs up: it may"


def shown(name: str) -> tuple[str, ...]:
    """The options for a certificate of the tests and its key."""
    return ("--tls-cert", str(FILES / f"{name}.pem"), "--tls-key", str(FILES / f"{name}.key"))


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (
            ("--tls-ca", str(FILES / "stranger.pem")),
            (
                "the certificate of {where} is not trusted, "
                "unable to get local issuer certificate: --tls-ca FILE says whom to trust"
            ),
        ),
        (
            (*CA, "--tls-server-name", "elsewhere"),
            (
                "the certificate of {where} is for another name: "
                "--tls-server-name NAME says which one to expect"
            ),
        ),
        (CA, f"{HANGS_UP} want a certificate of yours, give --tls-cert and --tls-key"),
        (
            (*CA, *shown("stranger")),
            f"{HANGS_UP} not trust the certificate in {FILES / 'stranger.pem'}",
        ),
    ],
    ids=["authority", "name", "no certificate", "certificate of a stranger"],
)
async def test_a_refused_certificate_is_explained(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], advice: str
) -> None:
    """The objection to the certificate is printed, with advice."""
    async with serving(tls=tls()) as server:
        where = server.grpc_address
        result = await Shell(where, capsys)("rms", *options)
        assert (result.code, result.out) == (2, "")
        said = advice.format(where=where)
        assert result.err == f"licorne: cannot reach {where}: {said}\n"


async def test_messages_of_grpc_are_suppressed() -> None:
    """Only the command's own line is printed, and no message of gRPC's core."""
    command = (sys.executable, "-m", "licorne_server", "rms", "--tls-ca")
    async with serving(tls=tls()) as server:
        options = (str(FILES / "stranger.pem"), "--target", server.grpc_address)
        process = await asyncio.create_subprocess_exec(*command, *options, stderr=asyncio.subprocess.PIPE)
        _, said = await process.communicate()
    assert (process.returncode, said.count(b"\n")) == (2, 1)
    assert said.startswith(b"licorne: cannot reach ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--tls-ca", "{files}/make.sh"),
            "--tls-ca {files}/make.sh: not usable as PEM: no certificate or crl found",
        ),
        (
            ("--tls-ca", "{files}/none.pem"),
            "cannot read {files}/none.pem: No such file or directory",
        ),
        (
            ("--tls-cert", "{files}/rm.pem", "--tls-key", "{files}/operator.key"),
            (
                "--tls-cert {files}/rm.pem, --tls-key {files}/operator.key: not usable as PEM: "
                "key values mismatch"
            ),
        ),
        (("--tls-cert", "{files}/rm.pem"), "--tls-cert and --tls-key go together"),
    ],
    ids=["no certificate in it", "no file", "not a pair", "half a pair"],
)
async def test_unusable_files_are_named_before_the_call(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    """Unusable files are named before a call is made."""
    words = [word.format(files=FILES) for word in options]
    result = await Shell("127.0.0.1:1", capsys)("rms", *words)
    assert (result.code, result.err) == (1, f"licorne: {said.format(files=FILES)}\n")


async def test_a_file_that_is_removed_during_the_command_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that is removed while the command runs is named."""
    authority = tmp_path / "ca.pem"
    authority.write_bytes((FILES / "stranger.pem").read_bytes())
    real = TlsConfig.credentials

    def then_gone(tls: TlsConfig) -> object:
        credentials = real(tls)
        authority.unlink()
        return credentials

    monkeypatch.setattr(TlsConfig, "credentials", then_gone)
    async with serving(tls=tls()) as server:
        where = server.grpc_address
        result = await Shell(where, capsys)("rms", "--tls-ca", str(authority))
    assert result.code == 2
    assert f"cannot reach {where}: cannot read {authority}: No such file" in result.err


def test_an_expired_certificate_suggests_no_authority() -> None:
    """An expired certificate is refused under any authority, so none is suggested."""
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = 10, "certificate has expired"
    assert refused_because(error) == "is not taken: certificate has expired"


async def test_an_invalid_host_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid host name gives one line, like every other failure."""
    async with serving(tls=tls()) as server:
        result = await Shell(server.grpc_address, capsys)("rms", *CA, "--tls-server-name", ".foo")
    assert result.code == 2
    assert result.err.startswith(f"licorne: cannot reach {server.grpc_address}: ")
    assert tls_advice("a..b:7070", TlsConfig()) == ""


async def test_pipes_with_certificates_are_read_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A pipe, as made by process substitution, is not read for the advice."""
    pipe = tmp_path / "ca"
    os.mkfifo(pipe)
    writing = asyncio.create_task(asyncio.to_thread(pipe.write_bytes, (FILES / "ca.pem").read_bytes()))
    async with serving(tls=tls(mutual=False)) as server:
        result = await Shell(server.grpc_address, capsys)("rms", "--tls-ca", str(pipe))
    await writing
    assert result.code == 0


async def test_a_call_with_tls_to_a_plain_server_names_the_option(town: Town) -> None:
    """The server is unreachable, and the message names the option to leave out."""
    result = await town.shell("queues", "--tls", "--timeout", "2")
    where = town.shell.target
    advice = f"{where} does not speak TLS: leave the TLS options out"
    assert (result.code, result.err) == (2, f"licorne: cannot reach {where}: {advice}\n")


@pytest.mark.parametrize("target", ["unix:/run/nothing", "127.0.0.1:1"])
def test_no_advice_without_an_answer(target: str) -> None:
    """Without an answer the command gives no advice about TLS."""
    assert tls_advice(target, TlsConfig()) == tls_advice(target, None) == ""


def test_no_advice_for_a_closed_connection() -> None:
    """A peer that closes every connection gets no advice about TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert tls_advice(f"127.0.0.1:{listener.getsockname()[1]}", TlsConfig()) == ""
        thread.join()

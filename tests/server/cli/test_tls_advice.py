"""A server that speaks TLS, or does not, says so to whoever asks it the other way."""

import socket
import threading

import pytest

from licorne_server.cli.tls_probe import tls_advice
from support.shim import serving
from support.tls import FILES, tls
from support.town import Shell, Town


@pytest.mark.parametrize("mutual", [True, False])
async def test_a_tls_server_asked_without_tls(
    capsys: pytest.CaptureFixture[str], mutual: bool
) -> None:
    """It cannot be reached, and what to give is said; with that it can be."""
    async with serving(tls=tls(mutual=mutual)) as server:
        shell = Shell(server.grpc_address, capsys)
        result = await shell("rms")
        assert (result.code, result.out) == (2, "")
        where = server.grpc_address
        advice = f"{where} speaks TLS: give --tls, or --tls-ca FILE"
        assert result.err == f"licorne: cannot reach {where}: {advice}\n"
        if not mutual:
            assert (await shell("rms", "--tls-ca", str(FILES / "ca.pem"))).code == 0


async def test_a_plain_server_asked_with_tls(town: Town) -> None:
    """It cannot be reached, and what to leave out is said."""
    result = await town.shell("queues", "--tls", "--timeout", "2")
    where = town.shell.target
    advice = f"{where} does not speak TLS: leave the TLS options out"
    assert (result.code, result.err) == (2, f"licorne: cannot reach {where}: {advice}\n")


@pytest.mark.parametrize("target", ["unix:/run/nothing", "127.0.0.1:1"])
def test_where_nobody_answers_nothing_is_advised(target: str) -> None:
    """What is known of the other side is nothing."""
    assert tls_advice(target, tls=True) == tls_advice(target, tls=False) == ""


def test_who_hangs_up_is_not_judged() -> None:
    """Something that closes every connection may be anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert tls_advice(f"127.0.0.1:{listener.getsockname()[1]}", tls=True) == ""
        thread.join()

"""`licorne dev`: a server and three RMs in one command, and the address of its page."""

import argparse
import asyncio
import signal
import sys

import pytest

from licorne_cli.commands import main
from licorne_server.commands.ports import Ports
from licorne_server.lab.demo.dev import advice
from support.patience import PATIENCE


@pytest.mark.slow
async def test_dev_runs_until_it_is_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints its page, the endless application waits, and Ctrl-C ends the command properly."""
    any_port = "127.0.0.1:0"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_server", "dev", "--listen", any_port, "--http", any_port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            page = (await process.stdout.readline()).decode()
            _, target = (await process.stdout.readline()).decode().split()
            explain = ["explain", "oversized", "--target", target]
            # The test polls, because another process has no event for the first ask.
            while await asyncio.to_thread(main, explain) != 0:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            queues = ["queues", "root.nightly", "--target", target]
            assert await asyncio.to_thread(main, queues) == 0
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert page.startswith("page   http://127.0.0.1:")
    assert page.endswith("/ui\n")
    assert f"licorne explain oversized --target {target}" in out.decode()
    assert (process.returncode, err.decode()) == (0, "stopped\n")
    explained = capsys.readouterr().out
    assert "oversized/oversized-000 in root.nightly: pending" in explained
    assert "QUEUE_MAX_EXCEEDED: exceeds the maximum of queue root.nightly by memory=" in explained


@pytest.mark.parametrize(("taken", "option"), [("127.0.0.1:7070", "--listen"), ("127.0.0.1:9080", "--http")])
def test_a_port_in_use_names_its_option(taken: str, option: str) -> None:
    """The message for a port in use names the option for another address."""
    args = argparse.Namespace(listen="127.0.0.1:7070", http="127.0.0.1:9080")
    said = advice(
        args, f"the server did not start:\nlicorne: cannot listen on {taken}: Address already in use"
    )
    assert f"give another address with {option}, such as 127.0.0.1:0" in said
    assert advice(args, "the server ended by itself") == ""


@pytest.mark.parametrize(
    ("ports", "page"),
    [
        (Ports("127.0.0.1:1", "127.0.0.1:9080"), "http://127.0.0.1:9080/ui"),
        (Ports("0.0.0.0:1", "0.0.0.0:80", scheme="https"), "https://127.0.0.1:80/ui"),
        (Ports("[::]:1", "[::]:80"), "http://[::1]:80/ui"),
        (Ports("127.0.0.1:1", "off"), ""),
    ],
)
def test_the_printed_address_of_the_page_can_be_opened(ports: Ports, page: str) -> None:
    """For a server on all interfaces the printed address is one of this machine."""
    assert ports.page == page


@pytest.mark.parametrize("terminal", [True, False])
def test_serve_prints_the_page_on_a_terminal_only(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`serve` prints its addresses in one line, and on a terminal also that of the page."""
    monkeypatch.setattr("licorne_server.commands.ports.is_terminal", lambda _: terminal)
    Ports("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3").announce()
    page = ["page http://127.0.0.1:2/ui"] if terminal else []
    line = "listening grpc=127.0.0.1:1 http=127.0.0.1:2 metrics=127.0.0.1:3"
    assert capsys.readouterr().out.splitlines() == [line, *page]

"""`licorne top` on a real terminal, against a real server."""

import re
import signal
from collections.abc import AsyncIterator

import pytest

from support.peers.town import Town
from support.server.server_process import ServerProcess
from support.terminal import ALTERNATE, Tty

QUICK = ("--interval", "0.2")
RED = re.compile(r"\x1b\[(?:\d+;)*31[;m]")


@pytest.fixture
async def top(town: Town) -> AsyncIterator[Tty]:
    """`licorne top` after its first picture."""
    async with Tty("top", "--target", town.shell.target, *QUICK) as tty:
        await tty.shows("[green]default")
        yield tty


async def test_the_keys_of_the_footer_work(top: Tty) -> None:
    """The keys of the footer work: filter, open, back, sort, resource, fold, help and quit."""
    await top.shows("prod")
    lines = await top.until(lambda lines: "q quit ? help" in lines[-1])
    assert len(lines) == 24
    assert any("prod" in line and "100%" in line and "at max" in line for line in lines)
    top.press("/prod")
    await top.until(lambda lines: "filter: prod" in lines[1])
    await top.until(lambda lines: not any(" dev " in line for line in lines))
    top.press("\r")
    await top.until(lambda lines: "/ filter" in lines[-1])
    top.press("\r")
    await top.shows("QUEUE_MAX_EXCEEDED")
    await top.shows("[blue]default root.prod")
    await top.until(lambda lines: any("shop" in line and "Running" in line for line in lines))
    await top.until(lambda lines: "esc back" in lines[-1])
    top.press("\x1b")
    await top.until(lambda lines: "/ filter" in lines[-1])
    top.press("\x1b")
    await top.until(lambda lines: "filter" not in lines[1])
    top.press("s")
    await top.shows("sorted by use")
    top.press("m")
    await top.shows("bars: cores")
    top.press("g ")
    await top.shows("▸ [blue]default (2)")
    top.press("?")
    await top.shows("as any other key")
    top.press("x")
    await top.shows("▸ [blue]default (2)")
    top.press("q")
    assert await top.ended() == 0
    assert top.is_as_before()


async def test_the_screen_follows_the_window(top: Tty) -> None:
    """After the window shrinks and grows, the footer is on the last line."""
    top.resize(60, 8)
    lines = await top.until(lambda lines: len(lines) == 8)
    assert all(len(line) <= 60 for line in lines)
    await top.until(lambda lines: "q quit" in lines[-1])
    top.resize(140, 40)
    await top.until(lambda lines: len(lines) == 40 and "q quit" in lines[-1])
    await top.until(lambda lines: any("GUARANTEED" in line and "APPS" in line for line in lines))


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131), (signal.SIGINT, 0)],
)
async def test_a_signal_restores_the_terminal(top: Tty, number: signal.Signals, code: int) -> None:
    """After any signal the terminal is restored; the exit code has the signal, or is 0 for an interrupt."""
    assert top.attributes() != top.mode
    top.process.send_signal(number)
    assert await top.ended() == code
    assert top.is_as_before()
    assert "Traceback" not in top.output


async def test_control_c_is_an_interrupt(top: Tty) -> None:
    """Control-C on the keyboard acts as an interrupt."""
    top.press("\x03")
    assert await top.ended() == 0
    assert top.is_as_before()


async def test_the_screen_can_be_suspended_and_resumed(top: Tty) -> None:
    """Control-Z returns the terminal to the shell, and `fg` resumes the screen."""
    top.press("\x1a")
    await top.until(lambda _: top.is_stopped and top.is_as_before())
    taken = top.output.count(ALTERNATE)
    top.process.send_signal(signal.SIGCONT)
    await top.until(lambda _: top.output.count(ALTERNATE) > taken)
    top.press("?")
    await top.shows("as any other key")
    top.press("q")
    assert await top.ended() == 0
    assert top.is_as_before()


async def test_a_terminal_without_a_keyboard_has_the_screen(town: Town) -> None:
    """Without a keyboard the screen is shown, without keys in its footer."""
    async with Tty("top", "--target", town.shell.target, keyboard=False) as tty:
        lines = await tty.shows("[green]default")
        assert lines[-1] == "Ctrl-C quits"
        assert tty.attributes() == tty.mode
        tty.process.send_signal(signal.SIGINT)
        assert await tty.ended() == 0
        assert tty.is_as_before()


async def test_a_dumb_terminal_gets_plain_lines(town: Town) -> None:
    """A dumb terminal gets lines without control codes."""
    async with Tty("top", "--target", town.shell.target, "--once", env={"TERM": "dumb"}) as tty:
        assert await tty.ended() == 0
        assert "2 asks waiting" in tty.output
        assert "\x1b" not in tty.output


@pytest.mark.slow
async def test_no_color_disables_colours(town: Town) -> None:
    """The variable NO_COLOR disables colours, which are on without it."""
    for env, coloured in [({}, True), ({"NO_COLOR": "1"}, False)]:
        async with Tty("top", "--target", town.shell.target, env=env) as tty:
            await tty.shows("[green]default")
            assert bool(RED.search(tty.output)) == coloured
            tty.press("q")
            assert await tty.ended() == 0


async def test_once_prints_to_the_ordinary_screen(town: Town) -> None:
    """`--once` prints all queues one below another, on the ordinary screen."""
    async with Tty("top", "--target", town.shell.target, "--once", height=5) as tty:
        assert await tty.ended() == 0
        assert "within its guarantee" in tty.output
        assert ALTERNATE not in tty.output
        assert [word for word in tty.output.split() if word in ("prod", "dev")] == [
            "dev",
            "prod",
            "dev",
            "prod",
        ]


@pytest.mark.slow
async def test_the_screen_reconnects_to_its_server() -> None:
    """While the server is down the last data remain, marked as old, and keys work; later data are current."""
    async with ServerProcess() as server, Tty("top", "--target", server.target, *QUICK) as tty:
        await tty.shows("no RM has registered")
        await server.kill()
        await tty.shows("no answer for")
        tty.press("?")
        await tty.shows("as any other key")
        tty.press("x")
        await server.start()
        await tty.until(lambda lines: lines[1].startswith("0 nodes"))
        tty.press("q")
        assert await tty.ended() == 0
        assert tty.is_as_before()


async def test_an_unreachable_server_is_reported_in_one_line() -> None:
    """Without a server the command prints one line, like every command."""
    async with Tty("top", "--target", "127.0.0.1:1") as tty:
        assert await tty.ended() == 2
        await tty.shows("licorne: cannot reach 127.0.0.1:1")
        assert ALTERNATE not in tty.output

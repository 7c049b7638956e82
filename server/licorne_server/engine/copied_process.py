"""A forked copy of this process that computes one answer and sends it through a pipe.

The copy is made by `os.fork`. This process pauses for about 40 ms for each gigabyte of its memory, and 4 ms
for 100,000 asks: its page tables are copied. A page is copied when either process writes to it, so memory
is needed for the parts that the plan changes or reads. The copy has the whole memory of this process, but
only one thread.

Threads of gRPC and others make a fork dangerous: a lock that another thread holds at the fork is held forever
in the copy. So the copy takes none of their locks: not of gRPC, of the log or of an executor. It runs one
function of the core, which is pure, and then `os._exit`, which cleans up nothing of the parent. It neither
returns into the event loop, nor logs, nor imports. The locks that it needs are those of the interpreter, of
the import system and of the C library's memory, which handle forks themselves. gRPC's own handlers of forks
are switched off (`__init__.py` of the server). Protobuf, which writes the answer, has neither threads nor
locks.

The copy and its own copies are a process group: they are ended together, and this process can find those that
it inherits as the first process of a container. The copy first closes all files but its pipe, so that it
keeps no port or stream open. It ends with its parent (`PR_SET_PDEATHSIG`), has a limit of CPU time and a low
priority, writes no core file, and is the kernel's first victim if memory runs out.
"""

import ctypes
import gc
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

Spent = Callable[[], float]
"""Share of its CPU time that a copy has spent; 0.0 at its start, 1.0 when the time is used up."""

ANSWERED = b"+"
"""Prefix of an answer."""

FAILED = b"-"
"""Prefix of the traceback of a function that has raised."""

_LENGTH = 8
"""Number of bytes for the length of the answer, between the prefix and the answer."""

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = Path("/proc/self/oom_score_adj")
_FIRST_TO_GO = "1000"
_NICENESS = 10
_OPENED = "/proc/self/fd"


class Child(NamedTuple):
    """A copy that was started."""

    pid: int
    answers: int
    """The reading end of its pipe, which does not block."""


def _prctl() -> Callable[[int, int], int] | None:
    """The system call of Linux that ends a process with its parent; None on other systems."""
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return found


# This is done before any fork, as the copy must not load a library.
_PRCTL = _prctl()


def start(work: Callable[[Spent], bytes], seconds: int, *, leads: bool = True) -> Child:
    """Start a copy in which `work` computes the answer, within `seconds` of CPU time.

    It leads a group of processes of its own, unless it is the copy of a copy.

    Raises:
        OSError: the system does not allow another process, or has no memory for it.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    try:
        pid = _fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if leads:
        # Parent and child both do this, as either may run first.
        with suppress(OSError):
            os.setpgid(pid, pid)
    if pid == 0:
        _be_the_copy(work, writer, parent, seconds)
    os.close(writer)
    os.set_blocking(reader, False)
    return Child(pid, reader)


def kill(child: Child) -> None:
    """Kill a copy and its own copies. Where SIGCHLD is ignored, an ended copy may be reaped already."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # The system may have refused to give the copy a process group of its own.
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)


def reap(child: Child) -> int:
    """Wait for the end of a killed copy; returns its status.

    Also waits for the copies that the killed one has made, if they have become children of this process:
    that is so if this process is the first one of a container, or a subreaper.
    """
    status = 0
    with suppress(ChildProcessError):
        # If SIGCHLD is ignored, the kernel reaps children immediately.
        _, status = os.waitpid(child.pid, 0)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-child.pid, 0)
    return status


def apart(work: Callable[[Spent], bytes], seconds: int) -> bytes | None:
    """Run `work` in a copy of this copy, so that its changes do not affect this one; wait for its answer.

    None if the copy could not be made, or was ended before it answered.

    Raises:
        CopyFailed: `work` has raised.
    """
    try:
        child = start(work, seconds, leads=False)
    except OSError:
        return None
    os.set_blocking(child.answers, True)
    with os.fdopen(child.answers, "rb") as pipe:
        received = pipe.read()
    os.waitpid(child.pid, 0)
    whole = whole_answer(received)
    if whole is None:
        return None
    if whole[0] == FAILED:
        raise CopyFailed(whole[1].decode("utf-8", "replace"))
    return whole[1]


class CopyFailed(Exception):
    """The work of a copy has raised an exception; the text is its traceback."""


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 and later warn of forks in processes with threads: a lock that another thread holds
        # would be held forever in the copy. This copy takes no such lock (see above).
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _be_the_copy(work: Callable[[Spent], bytes], writer: int, parent: int, seconds: int) -> None:
    """Run `work`, send the answer and exit. This never returns, whatever is raised."""
    try:
        gc.disable()
        _prepare(writer, parent, seconds)
        try:
            # The CPU time of the copy counts from the fork.
            kind, answer = ANSWERED, work(lambda: time.process_time() / seconds)
        except BaseException:
            kind, answer = FAILED, traceback.format_exc().encode("utf-8", "replace")
        _write(writer, kind + len(answer).to_bytes(_LENGTH) + answer)
    finally:
        os._exit(0)


def _prepare(writer: int, parent: int, seconds: int) -> None:
    """Close the parent's files, and bound the copy's lifetime."""
    _close_all_but(writer)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent ended before the line above.
        os._exit(0)
    # The core itself ends within its time; this limit applies if a defect prevents that.
    resource.setrlimit(resource.RLIMIT_CPU, (2 * seconds, 2 * seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A copy of a copy has the same niceness as its parent.
    os.nice(max(0, _NICENESS - os.nice(0)))
    try:
        _OOM_SCORE.write_text(_FIRST_TO_GO)
    except OSError:
        # On other systems, or if it is not allowed, the kernel chooses its victim by size only.
        return


def _close_all_but(pipe: int) -> None:
    try:
        opened = [int(name) for name in os.listdir(_OPENED)]
    except OSError:
        opened = list(range(os.sysconf("SC_OPEN_MAX")))
    for number in opened:
        if number != pipe:
            with suppress(OSError):  # the listing's own descriptor is closed already
                os.close(number)


def whole_answer(received: bytes) -> tuple[bytes, bytes] | None:
    """The kind of a received answer (`ANSWERED` or `FAILED`) and its content; None if it is truncated."""
    kind, rest = received[:1], received[1:]
    answer = rest[_LENGTH:]
    if not kind or len(answer) != int.from_bytes(rest[:_LENGTH]):
        return None
    return kind, answer


def _write(writer: int, answer: bytes) -> None:
    view = memoryview(answer)
    while view:
        view = view[os.write(writer, view) :]

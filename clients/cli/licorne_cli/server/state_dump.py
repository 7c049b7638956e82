"""`licorne state-dump`: everything that the server knows, as one JSON document."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

import grpc

from licorne.v1.admin_pb2 import DumpStateRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.connection.channel import add_connection_arguments, with_channel
from licorne_cli.failures import UsageError
from licorne_cli.output.text import human_bytes, printable, say

EXAMPLES = (
    ("licorne state-dump > state.json", "everything"),
    ("licorne state-dump --rm my-cluster --file state.json", "one RM, all of it or nothing"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne state-dump`."""
    add = parser.add_argument
    add("--rm", dest="rm_id", metavar="RM", help="only this RM (default: all)")
    add(
        "--file",
        type=Path,
        metavar="FILE",
        help="write it there, all or nothing; otherwise it goes to stdout",
    )
    add_connection_arguments(parser, partition=False, forms=())


def run(args: argparse.Namespace) -> int:
    """Write the document as it comes."""
    return with_channel(args, lambda channel: dump(channel, args))


def dump(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and write.

    It may take longer than an answer usually does, as RMs are asked too: there is no deadline.

    Raises:
        UsageError: the file cannot be written.
    """
    answers = AdminStub(channel).DumpState(DumpStateRequest(rm_id=args.rm_id))
    if args.file is None:
        for answer in answers:
            sys.stdout.write(answer.json.decode())
        sys.stdout.write("\n")
        return
    size = 0
    with replacing(args.file) as write:
        for answer in answers:
            size += write(answer.json)
        write(b"\n")
    say(f"{printable(str(args.file))}: {human_bytes(size)}B")


@contextmanager
def replacing(path: Path) -> Iterator[Callable[[bytes], int]]:
    """A function that writes to a file beside it, which takes its place if all goes well.

    Raises:
        UsageError: it cannot be written.
    """
    beside: Path | None = None
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
            beside = Path(stream.name)
            yield stream.write
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        _remove(beside)
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    except BaseException:
        _remove(beside)
        raise


def _remove(path: Path | None) -> None:
    if path is not None:
        with suppress(OSError):
            path.unlink()

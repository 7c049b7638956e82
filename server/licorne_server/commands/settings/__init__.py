"""The settings of `licorne serve`, and `licorne settings`, which prints a file with all of them.

`tables` has all keys, with kinds of values from `kinds`. `sources` finds and checks the value of each
key.
"""

import argparse
from collections.abc import Iterator
from textwrap import wrap

from licorne_cli.failures import OK
from licorne_cli.output.text import while_read
from licorne_server.commands.settings.kinds import written
from licorne_server.commands.settings.tables import KEYS, TABLES, SettingKey

EXAMPLES = (
    ("licorne settings > licorne.toml", "a file in which everything is a comment"),
    ("licorne serve --settings licorne.toml", "and a server with it"),
)
WIDTH = 100
HEAD = """\
# The settings of `licorne serve --settings FILE`, with their defaults. Remove the # before what you change.
# A flag goes before a variable, LICORNE_<TABLE>_<KEY>, and a variable before this file.
# Times are in seconds, sizes in bytes or as 512Mi, and paths relative to the folder of this file.
"""


def add_arguments(_: argparse.ArgumentParser) -> None:
    """The command takes no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print a file with all settings."""
    with while_read():
        for line in lines():
            print(line)
    return OK


def lines() -> Iterator[str]:
    """The lines of the file, with all keys and their defaults."""
    yield HEAD.rstrip()
    for table, kind in TABLES.items():
        yield from ("", f"# {kind.__doc__}", f"[{table}]")
        for key in KEYS.values():
            if key.table == table:
                yield from (f"# {line}" for line in wrap(f"{key.what} ({key.kind.form})", WIDTH))
                yield f"#{key.name} = {default_of(key)}"


def default_of(key: SettingKey) -> str:
    """The default of a key, in the form of the file."""
    if key.usual is None:
        return written(key.kind.words[-1])
    if key.kind.metavar == "SIZE":
        return written(_with_unit(key.usual))
    return written(key.usual)


def _with_unit(size: int) -> str | int:
    for unit, factor in (("Gi", 2**30), ("Mi", 2**20)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return size

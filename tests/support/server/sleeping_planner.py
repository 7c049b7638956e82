"""`licorne serve` whose plans never end; the first argument is a file for the process id of the copy."""

import os
import signal
import sys
from pathlib import Path

from licorne_cli.commands import main
from licorne_server.services.admin import plans


def plant(file: Path) -> None:
    """Let every plan write its process id to the file, and sleep."""

    def sleep(*_: object) -> bytes:
        part = file.with_suffix(".part")
        part.write_text(str(os.getpid()))
        part.rename(file)
        while True:
            signal.pause()

    plans._plan_configuration = sleep  # type: ignore[assignment]


if __name__ == "__main__":
    plant(Path(sys.argv.pop(1)))
    sys.exit(main())

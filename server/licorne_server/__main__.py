"""`python -m licorne_server`: the `licorne` command."""

import sys

from licorne_cli.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())

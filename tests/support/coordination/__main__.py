"""``.venv/bin/python tests/support/coordination SEED``: play one world, and print its violations."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from support.coordination.playing import play

if __name__ == "__main__":
    for seed in sys.argv[1:]:
        play(int(seed))

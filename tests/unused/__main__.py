"""``python tests/unused``: product code that nothing of the product uses; exit code 1 if any."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from unused.looking import unused  # noqa: E402

if __name__ == "__main__":
    found = unused(ROOT)
    for line in found:
        print(line)
    print(f"{len(found)} unused")
    sys.exit(1 if found else 0)

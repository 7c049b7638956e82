"""Placement: the leaf that each new application goes to (spec § 3).

The rules are those of the configuration, which has their keys (`config/rules.py`). `chain` asks them one
after the other.
"""

from typing import Final

NAME: Final = "placement"

"""Placement: the leaf that each new application goes to (spec § 3).

The rules are configured, by keys of `config/rules.py`. `chain` evaluates them one after the other.
"""

from typing import Final

NAME: Final = "placement"

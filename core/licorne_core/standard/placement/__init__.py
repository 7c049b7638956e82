"""Placement: the choice of the leaf for each new application (spec § 3).

The rules are configured, by keys of `config/rules.py`. `chain` evaluates them one after the other.
"""

from typing import Final

NAME: Final = "placement"

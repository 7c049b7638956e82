"""Elastic gangs: a minimum starts together, and grows and shrinks in whole steps (docs/elastic.md).

Tags of an application set its minimum of members, its step and its maximum (`terms`). Its gang is placed and
stopped in units (`GangUnits`): the minimum, and steps of growth (`sizes`). Growth is placed after all other
applications of the leaf, and stopped before all others.

`extension` gives new applications their units, `rules` has the reason of a gang at its maximum, and
`reports` has the sizes of gangs.
"""

from typing import Final

NAME: Final = "elastic"

"""Elastic gangs: a minimum starts together, and grows and shrinks in whole steps (docs/elastic.md).

An application says by its tags how many members start together, by how many it grows, and how many it may
have (`terms`). Its gang is placed and stopped in units (`GangUnits`): the minimum, and steps of growth
(`sizes`). Growth comes behind all other applications of the leaf, and is stopped before all others.

`extension` gives new applications their units, `rules` names the reason of a gang that has its maximum, and
`reports` says how large gangs are.
"""

from typing import Final

NAME: Final = "elastic"

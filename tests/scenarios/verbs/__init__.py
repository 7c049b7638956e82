"""Verbs of scenarios: each public function of these modules is the verb of its name.

Verbs of an extension are in the folder of its tests.
"""

from importlib import import_module
from importlib.util import find_spec
from inspect import isfunction

from licorne_core.extensions import NAMES
from scenarios.stage import Verb
from scenarios.verbs import clock, commands, reports

_OF_EXTENSIONS = [place for name in NAMES if find_spec(place := f"extensions.{name}.verbs") is not None]
VERBS: dict[str, Verb] = {
    name: verb
    for module in (clock, commands, reports, *map(import_module, _OF_EXTENSIONS))
    for name, verb in vars(module).items()
    if isfunction(verb) and verb.__module__ == module.__name__ and not name.startswith("_")
}

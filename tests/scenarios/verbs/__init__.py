"""Verbs of scenarios: each public function of these modules is the verb of its name."""

from inspect import isfunction

from scenarios.stage import Verb
from scenarios.verbs import clock, commands, reports

VERBS: dict[str, Verb] = {
    name: verb
    for module in (clock, commands, reports)
    for name, verb in vars(module).items()
    if isfunction(verb) and verb.__module__ == module.__name__ and not name.startswith("_")
}

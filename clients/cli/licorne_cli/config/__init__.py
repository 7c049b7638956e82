"""`licorne config ACTION` and `licorne apps plan`: configurations of RMs, and plans.

`command` has the table of actions. `reading` has the actions that change nothing, `force` the actions that
put a text into force, and `plan` the predictions; `plan_lines` prints predictions. `files` finds the file and
the RM.
"""

"""`licorne config ACTION` and `licorne submit`: configurations of RMs, and plans.

`command` has the table of actions. `reading` has those that change nothing, `force` those that put
a text into force, and `plan` what would happen, which `plan_lines` puts into words. `files` settles
file and RM.
"""

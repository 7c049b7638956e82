"""`licorne config ACTION` and `licorne submit`: configurations of RMs, and plans.

`command` has the table of actions; each is a module of its name. `rm` settles the RM, `files` reads
files and lists problems, `force` shows a change and asks before it is sent, `changes` compares two
configurations queue by queue, and `plan_lines` puts plans into words.
"""

"""The live screens of `licorne top` and `licorne demo`.

`source` looks at a server. What it saw is a `Snapshot` of a `tree` of queues. `view` is what the
viewer chose by keys. `picture` makes the lines of a screen of both, and of nothing else, with
`table`, `pages` and `pieces`. `terminal` puts lines on a terminal and reads keys; `top` lets all
this go on.
"""

"""The live screens of `licorne top` and `licorne demo`.

`source` reads a server's state into a `Snapshot`; `tree` arranges its queues. `view` has the choices that
the viewer makes by keys. `picture` makes the lines of a screen from snapshot and view alone, with `table`,
`pages` and `pieces`. `terminal` draws lines and reads keys; `top` runs the loop.
"""

"""The live screens of `licorne top` and `licorne demo`.

`source` reads a server's state into a `Snapshot`; `tree` arranges its queues. `table` has the columns and
cells of queues, `pages` an opened queue and the help, `pieces` bars and marks. `app` is the screen, made of
`widgets` by Textual; `top` is the command, and prints tables and `lines` where there is no screen.
"""

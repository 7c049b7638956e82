"""The live screens of `licorne top` and `licorne demo`.

`source` reads a server's state into a `Snapshot`, whose queues `tree` arranges. `table` has the columns and
cells of queues, `pages` an opened queue and the help, and `pieces` bars and marks. `app` is the screen, which
consists of Textual's `widgets`. `top` is the command, which prints tables and `lines` if there is no screen.
"""

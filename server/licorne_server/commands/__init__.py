"""Commands that run code of the server on this machine, and stay with the server's package.

`serve` has the groups of options of `licorne serve`.
"""

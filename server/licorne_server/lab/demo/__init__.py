"""`licorne demo` and `licorne dev`: `command` and `dev` run them, `world` has the RMs' clusters and
applications, `rm` plays an RM."""

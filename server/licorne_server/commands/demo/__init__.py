"""`licorne demo`: `command` runs it, `world` has the RMs' clusters and applications, `rm` plays an RM."""

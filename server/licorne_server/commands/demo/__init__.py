"""`licorne demo`: `command` plays and watches, `world` and `scenes` have the work, `rm` does it."""

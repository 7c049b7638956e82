"""Those at the other end of a connection: RMs, operators, and networks that misbehave."""

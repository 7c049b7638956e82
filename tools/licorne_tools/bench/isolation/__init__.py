"""Effects of one RM on the latency of another: the scenarios `neighbour` and `manyrms`.

`latency` measures. `catalogue` lists the attacks, and is the program of their processes; it imports the
modules with the attacks. `attack` has the common parts of attacks, and starts and stops their processes.
"""

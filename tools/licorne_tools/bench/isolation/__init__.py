"""Effects of one RM on the latency of others: the scenarios `neighbour` and `manyrms`.

`latency` measures. `catalogue` lists the attacks, imports their modules, and is the program of their
processes. `attack` has the common parts of attacks, and starts and stops their processes.
"""

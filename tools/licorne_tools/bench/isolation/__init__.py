"""What one RM's acts do to another one's latency: the scenarios `neighbour` and `manyrms`.

`latency` measures. `catalogue` names the attacks, and is the process of each; the modules that it
imports have them, and `attack` has what they share and starts and stops that process.
"""

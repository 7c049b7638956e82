"""What one RM's acts do to another one's latency: the scenarios `neighbour` and `manyrms`.

`catalogue` names the attacks, and the modules that it imports have them. Each attack runs in a
process of its own: `program` is that process, and `attacker` starts and stops it. `neighbour` and
`manyrms` measure, `trickle` is the RM whose latency counts, and `report` prints.
"""

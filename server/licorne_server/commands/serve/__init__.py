"""The options of `licorne serve` by what they are about: HTTP, peers, RMs, traces."""

"""Tools of a checkout: `bench` measures, and `commands` has `licorne bench`.

Nothing that is shipped imports them.
"""

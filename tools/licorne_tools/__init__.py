"""Tools of a checkout: `bench` measures, and `commands` has `licorne bench`. No shipped code imports them."""

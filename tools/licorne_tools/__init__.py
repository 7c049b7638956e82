"""Tools of a checkout: `bench` measures, `commands` has `licorne bench`. No shipped code imports them."""

"""How kernels add up, as far as bounds on their rounding errors rely on it."""

SUMMED_ROWS = 1024  # dense rows whose gradients are added up before they are added to all others
LEAST_ROWS = 64  # the same where many problems are solved together, at least
# power of the sizes that are added up to bound the largest: its root, of such a sum, is little more
MOMENT = 32

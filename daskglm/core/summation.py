"""How much is added up at once, which bounds on rounding errors rely on."""

SUMMED_ROWS = 1024  # dense rows whose gradients are added up before they are added to all others
LEAST_ROWS = 64  # the same where many problems are solved together, at least
# power of the sizes that are added up to bound the largest: its root, of such a sum, is little more
MOMENT = 32
# Entries of long vectors that are worked on at once, so that temporaries stay in a core's cache:
# 512 KiB of float64.
AT_ONCE = 1 << 16

"""How much is added up at once, which bounds on rounding errors rely on."""

# Dense rows whose gradients are summed before the sum is added to the total.
SUMMED_ROWS = 1024
# The same, at least, where many problems are solved together.
LEAST_ROWS = 64
# Power of the sizes whose sum bounds the largest: the root of such a sum is little more.
MOMENT = 32
# Entries of long vectors that are worked on at once, so that temporaries stay in a core's cache:
# 512 KiB of float64.
AT_ONCE = 1 << 16
# Roundings of the parts of a slope that is a difference, as an error of its margin over the margin
# (of links that take all margins: over one more): eight of each of both parts, whose sizes are at
# most that of the slope and four times the curvature times that.
MARGIN_ROUNDING = 32.0 * 2.0**-53

"""An engine in this process for rows with classes."""

from daskglm.data.blocks import to_block
from daskglm.data.values import Place
from daskglm.engines.local import Local


def engine_of(X, codes, weight=None, threads=2, parts=1):
    """Hold rows in `parts` blocks."""
    n = len(codes)
    cuts = [n * k // parts for k in range(parts + 1)]
    return Local(
        [
            to_block(
                X[a:b],
                codes[a:b],
                None if weight is None else weight[a:b],
                place=Place(),
                classify=True,
            )
            for a, b in zip(cuts[:-1], cuts[1:], strict=True)
        ],
        threads,
    )

"""What sweeps with many coefficients ask of a tile; numba chooses its kind by the type of `work`.

A tile of columns works in a two-dimensional array, one of sparse rows in one number an output. What
the functions do is said in `column_tiles`.
"""

from __future__ import annotations

from daskglm.kernels import column_tiles, sparse_tiles
from daskglm.kernels.chosen import Choice

_of_tile = Choice(column_tiles)
places = _of_tile("places")
run_end = _of_tile("run_end")
room = _of_tile("room")
fill = _of_tile("fill")
forward = _of_tile("forward")
backward = _of_tile("backward")
add_squares = _of_tile("add_squares")
gram_room = _of_tile("gram_room")
add_gram = _of_tile("add_gram")
_of_tile.add(column_tiles, lambda work: work.ndim == 2)
_of_tile.add(sparse_tiles, lambda work: work.ndim == 1)

"""What sweeps with many coefficients ask of a tile; numba chooses its kind by the type of `work`.

A tile of columns works in a two-dimensional array, one of sparse rows in one number an output. What
the functions do is said in `column_tiles`.
"""
# The signatures have no types, which are numba's, and their bodies are the modules'.
# ruff: noqa: D103
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from daskglm.kernels import column_tiles, sparse_tiles
from daskglm.kernels.chosen import Choice

_of_tile = Choice()


@_of_tile
def places(work, n): ...


@_of_tile
def run_end(work, stop): ...


@_of_tile
def room(work, W, most): ...


@_of_tile
def fill(work, X, d, rows, stop): ...


@_of_tile
def forward(work, X, d, W, many, rows, run, z, ahead): ...


@_of_tile
def backward(work, X, d, slopes, many, rows, run, sums): ...


@_of_tile
def add_squares(work, X, d, c, rows, out): ...


@_of_tile
def gram_room(work, W, most, like, formed): ...


@_of_tile
def add_gram(work, d, c, run, space, gram): ...


_of_tile.add(column_tiles, lambda work: work.ndim == 2)
_of_tile.add(sparse_tiles, lambda work: work.ndim == 1)

"""Requests about single columns of the rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColumnMoments:
    """Add up each column and its squares, with the row weights of the problem. 1 pass.

    Reply: sums (d,), of s x_j over rows of weight s; squares (d,), of s x_j^2; weight, of s. All
    are float64, whatever the dtype of the rows.
    """

"""The records of all names that are taken."""

from __future__ import annotations

from daskglm.accel import classifiers, least_squares, regressors

RECORDS = (*classifiers.RECORDS, *least_squares.RECORDS, *regressors.RECORDS)

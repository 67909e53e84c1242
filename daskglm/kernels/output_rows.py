"""What a tile of rows that stay sparse asks of one row; numba chooses by the type of the rows."""

from __future__ import annotations

from daskglm.kernels import coded, csr, outputs_coded, outputs_csr
from daskglm.kernels.chosen import Choice

_of_row = Choice(outputs_csr)
row_forward = _of_row("row_forward")
row_backward = _of_row("row_backward")
row_ask = _of_row("row_ask")
row_squares = _of_row("row_squares")
_of_row.add(outputs_csr, csr.has_type)
_of_row.add(outputs_coded, coded.has_type)

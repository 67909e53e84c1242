"""Vectors of rows in files, read again in other pieces."""

import numpy as np
import pytest

from daskglm.data import row_files as chunks


def test_chunks_of_rows_in_memory_may_be_cut_anew(tmp_path):
    values = np.arange(10.0)
    chunks.write(str(tmp_path / "c"), [(-1, 0, 4), (-1, 4, 6)], values)
    np.testing.assert_array_equal(
        chunks.read(str(tmp_path / "c"), [(-1, 0, 3), (-1, 3, 5), (-1, 8, 2)]), values
    )
    with pytest.raises(FileNotFoundError, match="rows 8 to 12"):
        chunks.read(str(tmp_path / "c"), [(-1, 8, 5)])

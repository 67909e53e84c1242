"""Real sets for benchopt's benchmarks: copy this file into a benchmark's folder datasets/.

Their own sets are downloaded; these are read from the folder that DASKGLM_DATA names, by this
repository's loader, which PYTHONPATH must find.
"""

from typing import ClassVar

import scipy.sparse as sp
from benchopt import BaseDataset

from benchmarks.datasets.problems import load


class Dataset(BaseDataset):
    """Rows and classes -1 and +1, which the lasso takes for numbers as it does those of RCV1."""

    name = "real"
    parameters: ClassVar = {"set": ["ALLAML", "covtype15k", "rcv1_binary", "news20_text"]}

    def get_data(self):
        """Return rows laid out by columns, as their sets are, and classes."""
        X, y = load(self.set)
        X = sp.csc_matrix(X)
        return {"X": X if X.nnz < 0.2 * X.shape[0] * X.shape[1] else X.toarray(), "y": y}

"""The data sets of the three papers by name: from a file of the user's where there is one, else a
generator's stand-in.

Files are LIBSVM's, in the folder that DASKGLM_DATA names; `benchmarks/README.md` says where people
get them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class PaperSet(NamedTuple):
    """A set of the papers: names of its file, best first, generator, rows, columns, storage."""

    files: tuple[str, ...]
    stand_in: str
    rows: int
    columns: int
    dense: bool


SETS = {
    "HIGGS": PaperSet(("HIGGS",), "higgs-like", 2_000_000, 28, True),
    "SUSY": PaperSet(("SUSY",), "susy-like", 5_000_000, 18, True),
    "epsilon": PaperSet(("epsilon_normalized",), "epsilon-like", 100_000, 2000, True),
    "RCV1": PaperSet(
        ("rcv1_test.binary", "rcv1_train.binary"), "rcv1-like", 200_000, 47_236, False
    ),
    "Criteo": PaperSet(
        ("criteo.kaggle2014.train.svm",), "criteo-like", 1_000_000, 1_000_000, False
    ),
    "real-sim": PaperSet(("real-sim",), "real-sim-like", 72_309, 20_958, False),
    "KDD2010-b": PaperSet(("kddb",), "kdd2010b-like", 500_000, 29_890_095, False),
    "url": PaperSet(("url_combined",), "url-like", 240_000, 3_231_961, False),
}
ENDINGS = ("", ".bz2", ".xz", ".gz")  # a compressed file is one chunk: unpack large ones


def find(name: str, folder: Path) -> Path | None:
    """Return the file of a set in a folder; None if it has none."""
    candidates = (folder / f"{stem}{ending}" for stem in SETS[name].files for ending in ENDINGS)
    return next((path for path in candidates if path.is_file()), None)


def read(name: str, path: Path, rows: int) -> tuple[Any, np.ndarray]:
    """Read the first rows of a set's file, float32, dense or CSR, and labels of -1/+1.

    Raises
    ------
    ValueError
        If a line cannot be read, with its number.
    """
    import dask

    import daskglm

    table, targets = daskglm.read_svmlight(
        path, n_features=SETS[name].columns, zero_based=False, dtype="float32"
    )
    parts: list[Any] = []
    labels: list[np.ndarray] = []
    for number in range(table.numblocks[0]):
        if sum(map(len, labels)) >= rows:
            break
        part, some = dask.compute(table.blocks[number], targets.blocks[number], scheduler="threads")
        parts.append(part.toarray() if SETS[name].dense else part)
        labels.append(some)
    X = np.concatenate(parts) if SETS[name].dense else sp.csr_matrix(sp.vstack(parts, format="csr"))
    y = np.concatenate(labels)
    return X[:rows], np.where(y > 0, 1.0, -1.0)[:rows]

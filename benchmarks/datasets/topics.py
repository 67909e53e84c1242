"""Generated texts of topics: shaped like RCV1, but each topic has ranks of words of its own."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

# Words, words of a text, and topics. The first two are RCV1's.
WORDS, LENGTH, TOPICS = 47_236, 75, 50
# Share of a topic's words that are drawn by ranks of its own.
OWN = 0.4
# Standard deviation of the margins that classes are drawn by.
SIGNAL = 4.0


def topics_like(rows: int = 100_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generate float32 rows of norm one with log-normal tf-idf weights, and classes -1 and +1.

    Frequencies of words fall as one over their rank, which each topic draws anew in part.
    """
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (np.arange(1, WORDS + 1) + 2.0)
    word = rng.permutation(WORDS)
    topic = rng.integers(TOPICS, size=rows)
    spread = np.exp(0.4 * rng.standard_normal(rows) - 0.08)
    lengths = np.maximum(rng.poisson(LENGTH * spread), 5)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    columns, topics = np.empty(starts[-1], np.int32), np.repeat(topic, lengths)
    for t in range(TOPICS):
        common = popularity * np.exp(rng.standard_normal(WORDS))
        own = popularity[rng.permutation(WORDS)]
        shares = np.cumsum((1.0 - OWN) * common / common.sum() + OWN * own / own.sum())
        of_topic = topics == t
        drawn = rng.random(int(of_topic.sum()))
        rank = np.searchsorted(shares / shares[-1], drawn)
        columns[of_topic] = word[np.minimum(rank, WORDS - 1)]
    counts = np.ones(len(columns), np.float32)
    X = sp.csr_matrix((counts, columns, starts), shape=(rows, WORDS))
    X.sum_duplicates()
    texts = np.maximum(np.bincount(X.indices, minlength=WORDS), 1)
    noise = np.exp(0.3 * rng.standard_normal(X.nnz))
    X.data = ((1.0 + np.log(X.data)) * np.log(rows / texts)[X.indices] * noise).astype(np.float32)
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
    norms[norms == 0.0] = 1.0
    X.data /= np.repeat(norms, np.diff(X.indptr)).astype(np.float32)
    w = rng.standard_normal(WORDS) * (rng.random(WORDS) < 0.3)
    z = X @ w + 0.1 * rng.standard_normal(TOPICS)[topic]
    z = SIGNAL * (z - np.median(z)) / z.std()
    return X, np.where(rng.random(rows) < expit(z), 1.0, -1.0)

"""
Clicks, out of core
===================

Do combinations of columns predict clicks on advertisements better than the columns alone? With all
pairs and many triples a row has 3,380 values, and the rows need more memory than a worker has left.
"""

import logging
import os
import tempfile
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import psutil
import scipy.sparse as sp
from dask.delayed import delayed
from distributed import Client, LocalCluster
from sklearn.metrics import log_loss

import daskglm

# %%
# 8,000 advertisements that were shown: 13 counts, which are binned, and 26 categories. A value of a
# column becomes a 64-bit number by hashing.

file = Path(os.environ["DASKGLM_DATA"], "criteo/criteo_8000.tsv.xz")
table = pd.read_csv(file, sep="\t", header=None)
clicked = table.pop(0).to_numpy()
counts = table.columns[:13]
table[counts] = np.floor(np.log1p(table[counts].clip(lower=0)) ** 2)
texts = [np.array([f"{c}={value}" for value in table[c]], object) for c in table]
values = np.stack([pd.util.hash_array(text) for text in texts], axis=1)
pairs = np.array(list(combinations(range(39), 2))).T
triples = np.array(list(combinations(range(13, 39), 3))).T


def encode(values, combined):
    """Return rows with a one for each value and combination, divided by the length of the row."""
    if combined:
        odd = np.uint64(0x9E3779B97F4A7C15)
        two = values[:, pairs[0]] * odd + values[:, pairs[1]]
        three = (values[:, triples[0]] * odd + values[:, triples[1]]) * odd + values[:, triples[2]]
        values = np.hstack([values, two, three])
    n, k = values.shape
    columns = ((values * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(46)).astype(np.int32)
    ones = np.full(n * k, k**-0.5)
    X = sp.csr_matrix((ones, columns.ravel(), np.arange(n + 1) * k), shape=(n, 2**18))
    X.sum_duplicates()  # this sorts the columns of a row, too, which fits would do in every pass
    return X


# %%
# The first 6,400 rows are encoded and written to 64 files. The last 1,600 are held out.

folder = tempfile.TemporaryDirectory()
files = [Path(folder.name, f"{number}.npz") for number in range(64)]
for number, name in enumerate(files):
    part = encode(values[100 * number :][:100], combined=True)
    sp.save_npz(name, part, compressed=False)
size = sum(name.stat().st_size for name in files)
print(f"{size / 2**20:.0f} MiB of files, {part.nnz / 100:.0f} values in a row")

# %%
# A worker that is allowed 512 MiB. Python and its libraries take more than half of that. (In a
# script of your own, this and what follows belong under ``if __name__ == "__main__":``.)

cluster = LocalCluster(
    n_workers=1,
    threads_per_worker=2,
    memory_limit="512 MiB",
    dashboard_address="127.0.0.1:0",
    silence_logs=logging.CRITICAL,
)
client = Client(cluster)
X = [delayed(sp.load_npz)(name) for name in files]
y = [delayed(clicked[100 * number :][:100]) for number in range(64)]

# %%
# A fit to four of the files shows what is left of the memory when all libraries are loaded.

options = {"solver": "lbfgs", "tol": 1e-3, "client": client, "out_of_core": True}
daskglm.fit(X[:4], y[:4], **options)
(used,) = client.run(lambda: psutil.Process().memory_info().rss).values()
print(f"{512 - used / 2**20:.0f} MiB are left for rows that take {size / 2**20:.0f} MiB")

# %%
# Out of core, every pass reads the files again, some of them while others are worked on.
# ``waiting`` is the share of the seconds that the worker waited for them. L-BFGS makes
# one pass an iteration. A gap of a thousandth is enough for the comparison below; the default is a
# millionth.

combined = daskglm.fit(X, y, **options)
report = combined.report_
print(report)
client.close()
cluster.close()
folder.cleanup()

# %%
# The columns alone fit into memory. The comparison is made on the rows held out.

alone = daskglm.fit(encode(values[:6400], combined=False), clicked[:6400])
seen = clicked[6400:]
predicted = {
    "combinations": combined.predict_proba(encode(values[6400:], combined=True))[:, 1],
    "columns alone": alone.predict_proba(encode(values[6400:], combined=False))[:, 1],
    "share of clicks": np.full(1600, clicked[:6400].mean()),
}
for name, chance in predicted.items():
    print(f"log loss, {name}: {log_loss(seen, chance):.4f}")

# %%
# How far the objective was above the optimum after each step, and whether predictions can be
# trusted as probabilities: among advertisements with about the same prediction, that share should
# be clicked. (The optimum cannot be below the objective at the end, less the gap proved there.)

optimum_at_least = report.objective / (1 + report.relative_gap)
gaps = [record["objective"] / optimum_at_least - 1 for record in report.history]
figure, (gap, calibration) = plt.subplots(1, 2)
gap.semilogy([record["passes"] for record in report.history], gaps, "o-")
gap.set(xlabel="passes over the files", ylabel="relative gap", xlim=0)
for (name, chance), style in zip(list(predicted.items())[:2], ("o", "s"), strict=True):
    bins = np.array_split(np.argsort(chance), 8)
    share = np.array([seen[rows].mean() for rows in bins])
    error = np.sqrt(share * (1 - share) / 200)
    calibration.errorbar(
        [chance[rows].mean() for rows in bins], share, error, fmt=style, label=name
    )
calibration.plot([0, 0.7], [0, 0.7], ":", color="0.5")
calibration.set(xlabel="predicted chance of a click", ylabel="share clicked (200 rows each)")
calibration.legend()

# %%
# What was learnt: on so few rows the combinations predict worse than the columns alone, and too
# near to the mean. Ten million different triples share the 262,144 columns, and most of them occur
# once. Out of core, rows that need more memory than there is are fitted to a proved gap all the
# same; the price is the seconds that are spent waiting for them.
#
# The rows are 8,000 of Criteo's Display Advertising Challenge (Kaggle, 2014; Creative Commons
# BY-NC-SA 4.0): lines of its ``train.txt``, in ``../shared/data`` or the folder that the variable
# ``DASKGLM_DATA`` names. Who has that file gets the like by
# ``head -8000 train.txt | xz > criteo/criteo_8000.tsv.xz``.

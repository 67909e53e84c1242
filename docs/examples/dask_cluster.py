"""
Rows on a Dask cluster
======================

Dask collections are loaded once and stay on the workers of the current client. Here the cluster is
one worker in threads of this process; on real ones nothing else changes.
"""

import dask.array as da
from distributed import Client

import daskglm

client = Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0")

# %%
# 200,000 rows in 8 chunks, labelled by a noisy linear model. Nothing is computed yet.

random = da.random.default_rng(0)
X = random.normal(size=(200_000, 20), chunks=(25_000, 20))
y = X.sum(axis=1) + random.logistic(size=200_000, chunks=25_000) > 0

# %%
# The fit loads the chunks as blocks, and then asks rounds of questions about them.

model = daskglm.LogisticRegression().fit(X, y)
print(model.report_)

# %%
# Predictions for dask collections are lazy. ``score`` fetches no more than its result.

print(model.predict_proba(X))
print(model.score(X, y))

client.close()

"""
A first fit, and how good it is
===============================

Fit a logistic regression to data in memory, and plot the proved bound on the gap against the cost.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import daskglm

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
model = daskglm.LogisticRegression(C=1.0).fit(X, y)
print(model.report_)

# %%
# The report says how good the answer is: the objective exceeds the optimum by at most
# ``relative_gap`` of it. The history has a record of each iteration, so solvers can be compared by
# what they cost, counted in passes over the rows.

figure, axis = plt.subplots()
for solver in ("newton", "tron", "lbfgs"):
    history = daskglm.fit(X, y, solver=solver).report_.history
    passes = [record["passes"] for record in history]
    gaps = [record["relative_gap"] for record in history]
    axis.semilogy(passes, gaps, "o-", label=solver)
axis.set(xlabel="passes over X", ylabel="bound on the relative gap")
axis.legend()

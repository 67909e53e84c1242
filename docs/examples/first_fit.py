"""
A first fit, and how good it is
===============================

How close to the optimum is a logistic regression, and what did that cost? Fit one to data in
memory, and plot the proved bound on the gap against the passes over the rows.
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
axis.set(xlim=0, xlabel="passes over the rows", ylabel="bound on the relative gap")
axis.legend()

# %%
# What was learnt: all three reach the same answer. With 30 features the Hessian costs little, and
# Newton's method makes the fewest passes.
#
# The rows come with scikit-learn: ``sklearn.datasets.load_breast_cancer``.

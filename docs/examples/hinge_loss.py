"""
A support vector machine and its dual
=====================================

The hinge loss is not smooth, so it is fitted by dual coordinate ascent. Rows outside of the margin
have the dual variable zero.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

import daskglm

X, y = make_blobs(300, centers=2, cluster_std=1.8, random_state=3)
model = daskglm.LinearSVC(loss="hinge", C=0.1, random_state=0).fit(X, y)
print(model.report_)

# %%
# The line, and the margins at a decision value of -1 and 1.

figure, axis = plt.subplots()
axis.scatter(*X.T, c=y, cmap="coolwarm", s=12)
(a, b), c = model.coef_[0], model.intercept_[0]
ends = X[:, 0].min(), X[:, 0].max()
for level, style in ((-1, ":"), (0, "-"), (1, ":")):
    axis.plot(ends, [(level - c - a * x) / b for x in ends], "k" + style)
axis.set(ylim=(X[:, 1].min() - 1, X[:, 1].max() + 1))

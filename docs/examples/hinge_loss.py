"""
A support vector machine and its support vectors
================================================

Which flowers decide where the line between two kinds of iris runs? Those inside of the margin: the
hinge loss of all others is zero.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import daskglm

# %%
# Length and width of the petals of 50 *versicolor* and 50 *virginica*. The hinge loss is not
# smooth, so it is fitted by dual coordinate ascent.

iris = load_iris()
X, y = iris.data[50:, 2:], iris.target[50:]
model = daskglm.LinearSVC(loss="hinge", C=1.0, random_state=0).fit(X, y)
print(model.report_)

# %%
# A flower is a support vector if its decision value is not beyond the margin of its own side.

values = model.decision_function(X)
support = np.where(y == 2, values, -values) <= 1 + 1e-3
print(f"{support.sum()} of {len(y)} flowers are support vectors")

figure, axis = plt.subplots()
for kind, marker in ((1, "o"), (2, "^")):
    chosen = y == kind
    axis.plot(*X[chosen].T, marker, color=f"C{kind - 1}", label=iris.target_names[kind])
axis.plot(*X[support].T, "o", color="0.3", fillstyle="none", markersize=9, label="support vector")
(a, b), c = model.coef_[0], model.intercept_[0]
ends = np.array([X[:, 0].min(), X[:, 0].max()])
for level, style in ((-1, ":"), (0, "-"), (1, ":")):
    axis.plot(ends, (level - c - a * ends) / b, style, color="0.4")
axis.set(xlabel="length of a petal, cm", ylabel="width of a petal, cm", ylim=(0.9, 2.6))
axis.legend(loc="lower right")

# %%
# What was learnt: a quarter of the flowers determine the line. The others could be anywhere beyond
# their margin, and the fit would be the same.
#
# The rows come with scikit-learn: ``sklearn.datasets.load_iris``.

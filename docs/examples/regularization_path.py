"""
Coefficients along a path of C
==============================

Several values of C are fitted by one call. With few features they share their passes over the rows,
so that a path costs little more than one fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

import daskglm

X, y = make_classification(20_000, 12, n_informative=5, random_state=0)
values = np.logspace(-6, 1, 15)
path = daskglm.fit(X, y, C=values)
print(f"{len(path)} models in {path[0].report_.passes:.1f} passes")

# %%
# A small C gives a strong penalty, and small coefficients.

figure, axis = plt.subplots()
axis.semilogx(values, [model.coef_[0] for model in path])
axis.set(xlabel="C", ylabel="coefficients")

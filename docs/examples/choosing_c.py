"""
Choosing C by cross-validation
==============================

How strong should the penalty be for reading handwritten digits? Each value of C is fitted to most
of the rows and scored on the others, and ``LogisticRegressionCV`` solves all of these problems
together.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import daskglm

# %%
# Images of 8 x 8 pixels. Five folds, 11 values of C, and each digit against the rest.

X, y = load_digits(return_X_y=True)
values = np.logspace(-2, 3, 11)
model = daskglm.LogisticRegressionCV(Cs=values, cv=5, scoring="neg_log_loss").fit(X / 16, y)
report = model.report_
print(f"{len(report.parts)} problems in {report.passes:.0f} passes over the rows")
print(f"largest gap of a problem: {max(part.relative_gap for part in report.parts):.1e}")

# %%
# ``scores_`` has a row for each fold. The mean of the folds says how good a C is, and its standard
# error how much chance is in that. Every C whose mean is within one standard error of the best is
# about as good; the smallest of them gives the simplest model.

losses = -model.scores_[0]
mean = losses.mean(axis=0)
error = losses.std(axis=0, ddof=1) / np.sqrt(len(losses))
best = mean.argmin()
simplest = np.flatnonzero(mean <= mean[best] + error[best])[0]
print(f"best C: {values[best]:.3g}, simplest of the good ones: {values[simplest]:.3g}")

figure, axis = plt.subplots()
axis.semilogx(values, losses.T, color="0.85", linewidth=1)
axis.errorbar(values, mean, error, fmt="o-", capsize=3, label="mean and standard error")
axis.axhline(mean[best] + error[best], color="0.5", linestyle=":", label="best + one error")
axis.plot(values[best], mean[best], "o", color="C1", markersize=8, label="best")
axis.plot(values[simplest], mean[simplest], "D", color="C2", markersize=8, label="simplest")
axis.set(xlabel="C (large: weak penalty)", ylabel="log loss, rows held out", ylim=(0, None))
axis.legend()

# %%
# The penalty can be seen in the coefficients of a digit, drawn as images. ``fit`` with several
# values of C returns a model for each.

path = daskglm.fit(X / 16, y == 8, C=[values[0], values[simplest], values[best], values[-1]])
figure, axes = plt.subplots(1, 4, figsize=(6.4, 2.2))
for axis, fitted in zip(axes, path, strict=True):
    image = fitted.coef_.reshape(8, 8)
    most = np.abs(image).max()
    axis.imshow(image, cmap="PuOr", vmin=-most, vmax=most)
    axis.set(title=f"C = {fitted.C:.3g}", xlabel=f"at most {most:.2g}", xticks=[], yticks=[])
figure.suptitle("Coefficients of an 8: purple pixels speak for it, orange ones against it")

# %%
# What was learnt: between a penalty that is too strong and one that is too weak there is a range of
# C that predict about as well. With a weak penalty a few pixels get coefficients that are many
# times as large, and the folds disagree.
#
# The rows come with scikit-learn: ``sklearn.datasets.load_digits``.

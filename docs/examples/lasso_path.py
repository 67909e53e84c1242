"""
Which measurements predict diabetes
===================================

Ten measurements of 442 patients, and how far their diabetes had progressed a year later: which of
the ten does a linear model need? A lasso with a strong penalty has none of them, and lets in one
after the other as the penalty falls. Cross-validation says where to stop.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import daskglm

# %%
# The path: 100 strengths, from the least one that leaves no coefficient. For least squares one pass
# over the rows adds up the products of all columns, which tell the whole path, and prove its gaps.

data = load_diabetes(as_frame=True)
X, y = data.data, data.target
path = daskglm.regularization_path(X, y, family="gaussian", eps=1e-3)
print(f"{len(path.alphas)} fits in {path.report_.passes:.0f} pass")
print(f"largest proved gap: {path.gaps.max():.0e}")
for k in np.flatnonzero(np.diff(path.df, prepend=0))[:5]:
    print(f"alpha {path.alphas[k]:.3g}: {', '.join(X.columns[path.coefs[k] != 0])}")

# %%
# Cross-validation: the products are added up for each tenth of the rows, still in one pass, and the
# sums of nine tenths tell the path of a fold. The errors of the rows held out follow from the sums
# of the tenth.

model = daskglm.LassoCV(eps=1e-3, cv=10, selection="1se").fit(X, y)
report = model.report_
print(f"{model.mse_path_.size} fits of folds in {report.passes:.0f} pass")

# %%
# The band is one standard error of the mean over the folds. Its least point has some more features
# than the strongest penalty that is within one standard error of it, at the dot.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2))
path.plot(left)
left.legend(loc="lower left", ncols=2, fontsize="small")
left.axvline(model.alpha_, color="0.4", linestyle=":")
left.set_title("Coefficients")
model.plot_cv(right)
right.set_title("Ten folds")

# %%
# An L1 penalty shrinks what it selects. With ``relax=True`` the selected features are fitted again
# without it.

relaxed = daskglm.LassoCV(eps=1e-3, cv=10, selection="1se", relax=True).fit(X, y)
for name, shrunk, free in zip(X.columns, model.coef_, relaxed.coef_, strict=True):
    if shrunk:
        print(f"{name:4} {shrunk:7.1f} {free:7.1f}")

# %%
# What was learnt: body mass index and one of the blood values (``s5``, the logarithm of
# triglycerides) come first, then blood pressure. A penalty with which the folds predict about as
# well as with the best one leaves six of the ten out.
#
# The rows come with scikit-learn: ``sklearn.datasets.load_diabetes``, from Efron, Hastie, Johnstone
# and Tibshirani 2004, *Least angle regression*.

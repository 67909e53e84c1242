"""
Choosing C by cross-validation
==============================

``LogisticRegressionCV`` has the parameters and attributes of scikit-learn's. Every one of its
problems has a proved gap.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification

import daskglm

X, y = make_classification(2_000, 60, n_informative=6, flip_y=0.2, random_state=0)
model = daskglm.LogisticRegressionCV(Cs=12, cv=5, scoring="neg_log_loss").fit(X, y)
print("best C:", model.C_[0])
print("problems:", len(model.report_.parts))
print("largest gap of a problem:", max(part.relative_gap for part in model.report_.parts))

# %%
# Scores are (folds, values of C), stored under the second label.

scores = model.scores_[1]
figure, axis = plt.subplots()
axis.semilogx(model.Cs_, scores.T, color="0.8")
axis.semilogx(model.Cs_, scores.mean(axis=0), "o-")
axis.set(xlabel="C", ylabel="negative log loss, rows held out", ylim=(-0.7, None))

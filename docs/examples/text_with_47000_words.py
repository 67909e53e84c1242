"""
Text with 47,000 words
======================

Which words tell that a message is about a computer? A logistic regression has a coefficient for
each of 47,000 words, and a proved bound on how far it is from the optimum.
"""

import json
import lzma
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import daskglm

file = Path(os.environ["DASKGLM_DATA"], "news20_text/news20_bydate.jsonl.xz")
with lzma.open(file, "rt") as lines:
    messages = [json.loads(line) for line in lines]
train = [message for message in messages if message["s"] == "train"]
later = [message for message in messages if message["s"] == "test"]

# %%
# The messages were posted to 20 newsgroups, of which the second to the sixth are on computers. The
# model is fitted to earlier messages and tested on later ones. Each word that occurs in at least
# two of the earlier messages is a column; the matrix is sparse.

words = TfidfVectorizer(token_pattern=r"\b[a-z]\w+", min_df=2, sublinear_tf=True)
X = words.fit_transform(message["t"] for message in train)
y = np.array([1 <= message["y"] <= 5 for message in train])
X_later = words.transform(message["t"] for message in later)
y_later = np.array([1 <= message["y"] <= 5 for message in later])
print(f"{X.shape[0]:,} messages, {X.shape[1]:,} words, {X.nnz / X.shape[0]:.0f} in a message")

# %%
# ``auto`` compares what each solver is expected to cost. The report begins with its choice.

model = daskglm.LogisticRegression(C=10).fit(X, y)
print(model.report_)
print(f"later messages classified correctly: {model.score(X_later, y_later):.1%}")
print(f"if all were said not to be on computers: {1 - y_later.mean():.1%}")

# %%
# The words with the largest coefficients. A coefficient is what the logarithm of the odds gains for
# each unit of the word's weight (tf-idf, in a row of length 1).

names, coef = words.get_feature_names_out(), model.coef_[0]
order = np.argsort(coef)
figure, axes = plt.subplots(1, 2, figsize=(6.4, 4))
for axis, shown, color in zip(axes, (order[:15][::-1], order[-15:]), ("C1", "C0"), strict=True):
    axis.barh(names[shown], coef[shown], color=color)
axes[0].set(xlabel="coefficient", title="Other subjects")
axes[1].set(xlabel="coefficient", title="Computers")

# %%
# How the bound on the gap falls, by the cost in passes over the rows and by time. Other solvers
# reach the same answer at another cost. The seconds are those of the machine that built this page.

figure, axes = plt.subplots(1, 2, sharey=True)
for solver, style in (("tron", "o-"), ("lbfgs", "s-"), ("sdca", "^-")):
    history = daskglm.fit(X, y, C=10, solver=solver, random_state=0).report_.history
    gaps = [record["relative_gap"] for record in history]
    for axis, unit in zip(axes, ("passes", "seconds"), strict=True):
        axis.semilogy([record[unit] for record in history], gaps, style, label=solver)
axes[0].set(xlim=0, xlabel="passes over the rows", ylabel="bound on the relative gap")
axes[1].set(xlim=0, xlabel="seconds")
axes[1].legend()

# %%
# scikit-learn minimises the same objective. Its answer can be compared with a number that the
# optimum cannot be below: our objective, less the proved gap.


def objective(w, b):
    margins = np.where(y, 1, -1) * (X @ w + b)
    return w @ w / 2 + 10 * np.logaddexp(0, -margins).sum()


optimum_at_least = model.report_.objective / (1 + model.report_.relative_gap)
theirs = LogisticRegression(C=10, solver="newton-cg").fit(X, y)
for name, fitted in (("daskglm", model), ("scikit-learn", theirs)):
    above = objective(fitted.coef_[0], fitted.intercept_[0]) / optimum_at_least - 1
    correct = fitted.score(X_later, y_later)
    print(f"{name:12}  above the optimum by at most {above:.1e}, {correct:.2%} correct")

# %%
# What was learnt: names of computers, their parts and their programs tell a message on computers;
# *sale*, *car* and *he* tell others. Both libraries classify alike. daskglm proves how good its
# answer is, and this bound judges the other's answer as well.
#
# The rows: 20 Newsgroups, split by date, without header lines other than the subject, in
# ``../shared/data`` or the folder that the variable ``DASKGLM_DATA`` names.
# ``sklearn.datasets.fetch_20newsgroups`` downloads the same messages; they have more header lines,
# so counts of words will differ.

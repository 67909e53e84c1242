"""
How many claims, and how large
==============================

Which drivers have accidents, and what do these cost? A Poisson regression of the number of claims
with the time that a policy was in force as its exposure, and a gamma regression of their size, each
with the table of its coefficients. The policies are made by the insurance-datasets package, which
tells by which coefficients, so that the tables can be held against the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from insurance_datasets import MOTOR_TRUE_FREQ_PARAMS, MOTOR_TRUE_SEV_PARAMS, load_motor

import daskglm

# %%
# 50,000 policies. Young drivers' effect fades between 25 and 30.

policies = load_motor(50_000, seed=42)
age = policies["driver_age"]
features = pd.DataFrame(
    {
        "vehicle_group": policies["vehicle_group"].astype(float),
        "driver_age_young": ((30 - age) / 5.0).clip(0.0, 1.0),
        "driver_age_old": (age >= 70).astype(float),
        "ncd_years": policies["ncd_years"].astype(float),
        "has_convictions": (policies["conviction_points"] > 0).astype(float),
    }
)
for band in "BCDEF":
    features[f"area_{band}"] = (policies["area"] == band).astype(float)

# %%
# Frequency
# ---------
# The exposure multiplies the mean: a policy of half a year is expected to have half the claims.
# Without a penalty the coefficients are those of maximum likelihood. The gap says how far the
# deviance can be above the least one, at most.

frequency = daskglm.PoissonRegressor(alpha=0, tol=1e-10)
frequency.fit(features, policies["claim_count"], exposure=policies["exposure"])
print(f"proved relative gap: {frequency.report_.relative_gap:.1e}")
print(
    f"D^2: {frequency.score(features, policies['claim_count'], exposure=policies['exposure']):.3f}"
)

table = frequency.inference(
    features, policies["claim_count"], exposure=policies["exposure"], covariance="HC1"
)
table.summary()

# %%
# The intervals hold the true coefficients, in about 19 of 20 cases.

interval = table.conf_int(0.95)
true = pd.Series(MOTOR_TRUE_FREQ_PARAMS)[table.params.index]
figure, axis = plt.subplots(figsize=(6.4, 4.0))
places = np.arange(len(true) - 1)
low, high = (interval.iloc[:-1, k].to_numpy() for k in (0, 1))
axis.hlines(places, low, high, linewidth=3, label="95 % interval")
axis.plot(table.params.iloc[:-1], places, "o", label="estimate")
axis.plot(true.iloc[:-1], places, "D", color="C1", label="truth")
axis.set(yticks=places, yticklabels=true.index[:-1], xlabel="change of log claims a year")
axis.legend()
figure.tight_layout()

# %%
# Severity
# --------
# The mean claim of policies that had some. Their number is the weight, since a mean of three claims
# varies a third as much as one.

claimed = policies["claim_count"] > 0
number = policies.loc[claimed, "claim_count"].astype(float)
mean_claim = policies.loc[claimed, "incurred"] / number
columns = features.loc[claimed, ["vehicle_group"]].assign(
    driver_age_young=(age[claimed] < 25).astype(float)
)
severity = daskglm.GammaRegressor(alpha=0, tol=1e-10).fit(columns, mean_claim, number)
print(f"dispersion {severity.dispersion_:.3f}; the claims were made with 1 / 2")

sizes = severity.inference(columns, mean_claim, sample_weight=number).to_frame()
sizes.assign(truth=pd.Series(MOTOR_TRUE_SEV_PARAMS))

# %%
# The premium
# -----------
# Expected cost of a year: frequency times severity.

first = features.head(5)
cost = frequency.predict(first) * severity.predict(
    first[["vehicle_group"]].assign(driver_age_young=(age.head(5) < 25).astype(float))
)
pd.DataFrame({"age": age.head(5), "expected cost of a year": np.round(cost, 2)})

# %%
# What was learnt: both regressions find the coefficients that the claims were made with, within
# their intervals; young drivers and inner cities have the most accidents, and an exposure makes
# policies of different lengths comparable.
#
# The rows are made by ``insurance_datasets.load_motor``.

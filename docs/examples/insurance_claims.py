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
# 50,000 policies. Young drivers' effect fades between 25 and 30. The area is text, and stays so:
# each area but the first has a coefficient. Booleans have one.

policies = pd.DataFrame(load_motor(50_000, seed=42))
age = policies["driver_age"]
table = policies[["vehicle_group", "ncd_years", "area", "claim_count", "exposure"]].assign(
    driver_age_young=((30 - age) / 5.0).clip(0.0, 1.0),
    driver_age_old=age >= 70,
    has_convictions=policies["conviction_points"] > 0,
)

# %%
# Frequency
# ---------
# The exposure multiplies the mean: a policy of half a year is expected to have half the claims.
# Its column is named once, in ``fit``. Without a penalty the coefficients are those of maximum
# likelihood. The gap says how far the deviance can be above the least one, at most.

frequency = daskglm.PoissonRegressor(alpha=0, tol=1e-10)
frequency.fit(table, "claim_count", exposure="exposure")
print(f"proved relative gap: {frequency.report_.relative_gap:.1e}")
print(f"D^2: {frequency.score(table, 'claim_count'):.3f}")

found = frequency.inference(table, "claim_count", covariance="HC1")
found.summary()

# %%
# The intervals hold the true coefficients, in about 19 of 20 cases.

interval = found.conf_int(0.95)
true = pd.Series(MOTOR_TRUE_FREQ_PARAMS)
true.index = true.index.str.replace(r"area_(.)", r"area[\1]", regex=True)
true = true.rename({name: f"{name}[True]" for name in ("driver_age_old", "has_convictions")})
true = true[found.params.index]
figure, axis = plt.subplots(figsize=(6.4, 4.0))
places = np.arange(len(true) - 1)
low, high = (interval.iloc[:-1, k].to_numpy() for k in (0, 1))
axis.hlines(places, low, high, linewidth=3, label="95 % interval")
axis.plot(found.params.iloc[:-1], places, "o", label="estimate")
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
claims = policies.loc[claimed, ["vehicle_group"]].assign(
    driver_age_young=(age[claimed] < 25).astype(float),
    number=number,
    mean_claim=policies.loc[claimed, "incurred"] / number,
)
severity = daskglm.GammaRegressor(alpha=0, tol=1e-10)
severity.fit(claims, "mean_claim", sample_weight="number")
print(f"dispersion {severity.dispersion_:.3f}; the claims were made with 1 / 2")

sizes = severity.inference(claims, "mean_claim").to_frame()
sizes.assign(truth=pd.Series(MOTOR_TRUE_SEV_PARAMS))

# %%
# The premium
# -----------
# Expected cost of a year: frequency times severity.

first = table.head(5)
cost = frequency.predict(first, exposure=1.0) * severity.predict(
    first[["vehicle_group"]].assign(driver_age_young=(age.head(5) < 25).astype(float))
)
pd.DataFrame({"age": age.head(5), "expected cost of a year": np.round(cost, 2)})

# %%
# What was learnt: both regressions find the coefficients that the claims were made with, within
# their intervals; young drivers and inner cities have the most accidents, and an exposure makes
# policies of different lengths comparable.
#
# The rows are made by ``insurance_datasets.load_motor``.

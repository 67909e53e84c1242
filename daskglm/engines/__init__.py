"""Engines answer requests with sums over all rows: in this process, or on a Dask cluster.

Lost workers are noticed and replaced here.
"""

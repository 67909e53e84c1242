"""Where requests are answered: in this process or on a dask cluster. Workers lost are noticed and
replaced here.
"""

"""From what users pass to checked blocks of rows: containers, dask collections, files."""

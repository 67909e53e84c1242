"""What `make demo` runs: delays of flights, fitted on a cluster of two workers and by scikit-learn,
with a page of pictures.
"""

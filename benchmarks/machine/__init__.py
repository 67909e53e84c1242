"""How near kernels come to this machine's memory bandwidth and BLAS, and what a start costs."""

"""The machine: processors, NUMA nodes, caches, memory, and compiled kernels on disk."""

"""The machine: cores, NUMA nodes, caches, memory, and machine code on disk."""

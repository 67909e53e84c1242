"""The stages of `benchmarks/gpu/first.py`: functions of `Lines` and of whether sizes are tiny.

Modules are imported when a stage begins: `env` tells what is missing before anything else needs it.
"""

STAGES = {
    "env": "environment",
    "right": "right",
    "ball": "times",
    "times": "times",
    "solves": "fits",
    "tables": "fits",
    "stream": "fits",
    "cluster": "clusters",
}

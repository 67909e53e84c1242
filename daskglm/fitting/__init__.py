"""One fit from its configuration to its report: setup, the driver of solvers, checkpoints,
progress.
"""

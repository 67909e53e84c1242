"""Stands in for cupyx in tests; see the `cupy` beside it."""

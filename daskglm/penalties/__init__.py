"""Penalties on the coefficients: their values, derivatives and duals."""

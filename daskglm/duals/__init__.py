"""Dual variables of an objective: states, steps, and how values are proved by them."""

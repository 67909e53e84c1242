"""Optima in long double that share no code with the package: what proved gaps are held against."""

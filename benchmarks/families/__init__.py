"""Races of Poisson, gamma and Tweedie regressions beside scikit-learn and glum."""

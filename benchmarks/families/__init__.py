"""Races of families beside scikit-learn, glum and statsmodels."""

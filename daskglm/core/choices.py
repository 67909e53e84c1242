"""Names of solvers and families to choose of, without what the names stand for."""

from __future__ import annotations

# Solvers of this package, in the order in which they are registered and shown.
SOLVERS = ("newton", "tron", "lbfgs", "gd", "sdca", "proximal", "proximal_newton", "owlqn")
# Families of distributions that losses of this package have.
FAMILIES = (
    *("gaussian", "binomial", "poisson", "gamma", "inverse_gaussian"),
    *("tweedie", "negative_binomial"),
)

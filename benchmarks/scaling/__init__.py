"""How the time of a fit depends on threads, workers and nodes: measured, and by a model."""

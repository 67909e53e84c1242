"""Data sets by name: the papers' sets or generated ones of the same shape."""

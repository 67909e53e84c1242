"""Other projects' own tests, run with this package's estimators in place of theirs: see `__main__`."""

"""Two commits of daskglm and its rivals in turns, on problems that nothing was tuned to."""

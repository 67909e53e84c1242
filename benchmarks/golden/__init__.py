"""Fits whose answers, passes and bounds are on record, to see what a change of the code changes."""

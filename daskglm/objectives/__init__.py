"""The objective and its dual, in terms of sums that an engine answers."""

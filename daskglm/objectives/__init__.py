"""The objective, in terms of sums that an engine answers."""

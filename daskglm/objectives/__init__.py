"""The objective, its dual and its certificates, in terms of sums that an engine answers."""

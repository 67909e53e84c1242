"""Which contestants run on which problems, and one run of one contestant in a fresh process."""

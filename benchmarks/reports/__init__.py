"""Tables and plots of recorded runs."""

"""Stands in for cupyx.scipy in tests."""

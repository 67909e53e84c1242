"""Losses as functions of one margin and one target, with their derivatives and conjugates."""

"""Memory of the machine, and what is left of it."""

import psutil

from daskglm.system import memory


def test_no_more_is_left_than_there_is():
    assert 0 < memory.memory_left() <= memory.memory_of_machine() <= psutil.virtual_memory().total


def test_a_limit_below_what_is_free_counts(monkeypatch):
    own = psutil.Process().memory_info().rss
    monkeypatch.setattr(memory, "memory_of_machine", lambda: 2 * own)
    assert 0 <= memory.memory_left() <= 2 * own

"""The engine of this process."""

from daskglm.engines import local


def test_a_cluster_takes_no_threads_from_fits_in_this_process(monkeypatch):
    """A LocalCluster sets OMP_NUM_THREADS to 1 in the process that starts it."""
    before = local.available_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert local.available_threads() == before


def test_the_user_may_ask_for_fewer_threads(monkeypatch):
    monkeypatch.setattr(local, "OMP_THREADS", "1")
    assert local.available_threads() == 1
    monkeypatch.setattr(local, "OMP_THREADS", "many")
    assert local.available_threads() >= 1
    monkeypatch.setattr(local, "OMP_THREADS", "0")
    assert local.available_threads() >= 1

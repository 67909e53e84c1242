"""BLAS has one thread within the context, and as many as before after it."""

from threadpoolctl import threadpool_info

from daskglm.system.blas import one_thread


def threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_one_thread_within_the_context():
    before = threads()
    with one_thread():
        assert threads() <= {1}
    assert threads() == before

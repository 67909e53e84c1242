"""Blocks move once waiting has cost as much as moving them."""

from daskglm.engines import rebalancing
from daskglm.engines.rebalancing import MOVED_BYTES, RebalancePolicy


def test_nothing_moves_while_all_threads_are_busy():
    policy = RebalancePolicy()
    policy.set_busy_threads(4, 4)
    assert not any(policy.after_round(10.0, 100) for _ in range(100))
    assert not policy.is_due


def test_blocks_move_when_the_time_lost_is_that_of_the_move():
    policy = RebalancePolicy()
    policy.set_busy_threads(2, 4)
    seconds, nbytes = 1.0, int(20 * MOVED_BYTES)  # half of them take 10 s to move
    rounds = 0
    while not policy.is_due:
        policy.after_round(seconds, nbytes)
        rounds += 1
    assert rounds == 22  # 11 s lost: the move, and one round more that it takes


def test_it_looks_for_workers_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(rebalancing.time, "monotonic", lambda: now[0])
    policy = RebalancePolicy()
    policy.set_busy_threads(1, 1)
    assert not policy.after_round(0.1, 100)
    now[0] = rebalancing.JOINED_SECONDS + 0.1
    assert policy.after_round(0.1, 100)
    policy.set_busy_threads(1, 1)
    assert not policy.after_round(0.1, 100)

"""Threads and buckets of rows follow the machine."""

from hypothesis import given, settings
from hypothesis import strategies as st

from daskglm.system import topology
from daskglm.system.topology import (
    Topology,
    read_topology,
)
from daskglm.worker import schedule
from tests.system.machines import (
    EVERY,
    xeon_4_nodes,
)


def test_groups_follow_the_machine(tmp_path, monkeypatch):
    from daskglm.core.facts import DataSummary
    from daskglm.core.requests import SDCAConfig

    machine = read_topology(xeon_4_nodes(tmp_path), EVERY)
    monkeypatch.setattr(schedule, "machine", lambda: machine)
    monkeypatch.setattr(schedule, "node_of_memory", lambda address: 2)
    facts = [DataSummary(n_rows=600, nonzeros=6000), DataSummary(n_rows=400, nonzeros=4000)]
    groups = schedule.groups_of(SDCAConfig(), facts, 12, 1234)
    assert [(group.threads, group.partitions) for group in groups] == [(6, 6), (6, 6)]
    assert groups[0].cpus == list(range(16, 22))  # node 2 first: the data are there
    rows = [sum(part.stop - part.first for part in group.ranges) for group in groups]
    assert rows == [500, 500]
    assert len(schedule.groups_of(SDCAConfig(), facts, 3, 1234)) == 1


def test_buckets_by_cache_line_and_last_level_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(
        schedule, "machine", lambda: Topology((), line_bytes=128, last_level_bytes=10 << 20)
    )
    assert schedule.bucket_rows(1000, 1000) == 1
    assert schedule.bucket_rows(2_000_000, 1000) == 16  # alpha does not fit: the paper's rule
    assert schedule.bucket_rows(1000, 1 << 30) == 16  # the rows come from memory


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 50)), min_size=1, max_size=6),
    st.integers(1, 9),
    st.sampled_from([1, 8]),
    st.sampled_from(["dynamic", "static"]),
    st.sampled_from([0.0, 0.1, 0.7, 1.0]),
    st.integers(0, 99),
)
@settings(max_examples=150, deadline=None)
def test_every_row_is_assigned_once(blocks, partitions, bucket, partitioning, share, seed):
    import numpy as np

    from daskglm.core.facts import DataSummary
    from daskglm.core.requests import SDCAConfig
    from daskglm.kernels.coordinate_ascent import _bits, place_of

    facts = [DataSummary(n_rows=n, nonzeros=n * per_row) for n, per_row in blocks]
    plan = SDCAConfig(partitioning=partitioning, partitions=partitions, nodes=1)
    (group,) = schedule.groups_of(plan, facts, 2, 0)
    rng = np.random.default_rng(seed)
    shares = schedule.assign_buckets(group, plan, bucket, rng)
    awake = [rng.random(n) < share for n, _ in blocks]
    assert len(shares) == partitions
    visits = [np.zeros(n, int) for n, _ in blocks]
    for part in (part for share in shares for part in share):
        listed = part.first + np.flatnonzero(awake[part.block][part.first : part.stop])
        rows, first, stop, bucket, key, begin, end = part.order(listed, bucket)
        rows = rows if len(rows) or not len(listed) else np.arange(stop)
        count = -(-(stop - first) // bucket)
        bits = _bits(count)
        for t in range(begin, end):
            at = first + bucket * place_of(t, count, (1 << bits) - 1, (bits + 1) // 2, key)
            visits[part.block][rows[at : min(at + bucket, stop)]] += 1
    for count, met in zip(visits, awake, strict=True):
        assert (count == met).all()
    assert topology.LINE_BYTES == 64


def test_few_values_are_of_one_thread():
    from daskglm.core.facts import DataSummary
    from daskglm.core.requests import SDCAConfig

    def threads(values, features=10, rows=1000, **plan):
        facts = [DataSummary(n_rows=rows, n_features=features, nonzeros=values // 2)] * 2
        return schedule.threads_for(SDCAConfig(**plan), facts, 4)

    # of rows that may be passed over
    few, many = schedule.THREAD_VALUES, 100 * schedule.THREAD_VALUES
    assert (threads(few, shrink=True), threads(many, shrink=True)) == (1, 4)
    assert threads(3 * few, shrink=True) == 3

    # of others, of which each has work of its own
    wait = schedule.WAIT_VALUES
    assert (threads(wait), threads(3 * wait), threads(100 * wait)) == (1, 3, 4)
    assert threads(wait, rows=2 * wait // schedule.ROW_VALUES) == 4
    # beside the copies of the shared vector
    assert threads(3 * wait, features=wait // schedule.COPIED_VALUES) == 1

    for asked in ({"partitions": 3}, {"nodes": 2}, {"partitioning": "wild"}):
        assert threads(wait, shrink=bool(asked), **asked) == 4


def test_blocks_are_visited_in_turns():
    import numpy as np

    from daskglm.core.facts import DataSummary
    from daskglm.core.requests import SDCAConfig

    (group,) = schedule.groups_of(
        SDCAConfig(nodes=1), [DataSummary(n_rows=2000, nonzeros=80_000)] * 8, 1, 0
    )
    (slices,) = schedule.assign_buckets(group, SDCAConfig(), 1, np.random.default_rng(0))
    order = np.array([part.block for part in slices])
    assert (np.bincount(order) == schedule.SLICES).all()
    assert max(part.end - part.begin for part in slices) <= 2000 / schedule.SLICES + 1
    # of 8 blocks in random order about one slice of 8 follows another one of its block
    assert (np.diff(order) == 0).mean() < 0.3

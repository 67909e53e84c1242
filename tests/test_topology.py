"""The machine as sysfs shows it: trees of real multi-node machines, odd ones, and who works where."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskglm import dealing, topology
from daskglm.topology import Node, Topology, choose_nodes, cpus_for, node_of_memory, read_topology


def as_list(cpus):
    """Numbers as the kernel writes them: 0-3,8."""
    runs = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def tree(root, nodes, caches, line, memory_only=()):
    """A sysfs: nodes maps a number to its cores, each a tuple of SMT siblings; caches are (level, type, size)."""
    system = root / "devices" / "system"
    for number, cores in nodes.items():
        write(system / f"node/node{number}/cpulist", as_list(cpu for core in cores for cpu in core))
        for core in cores:
            for cpu in core:
                write(system / f"cpu/cpu{cpu}/topology/thread_siblings_list", as_list(core))
                for k, (level, kind, size) in enumerate(caches):
                    folder = system / f"cpu/cpu{cpu}/cache/index{k}"
                    for name, text in (("level", level), ("type", kind), ("size", size), ("coherency_line_size", line)):
                        write(folder / name, text)
    for number in memory_only:
        write(system / f"node/node{number}/cpulist", "")
    write(system / "cpu/online", as_list(cpu for cores in nodes.values() for core in cores for cpu in core))
    return root


INTEL = [(1, "Data", "32K"), (1, "Instruction", "32K"), (2, "Unified", "1024K")]


def xeon_2_nodes(root):
    """Two Xeon Gold 6148: 20 cores each, hyper-threads numbered after all cores."""
    nodes = {k: [(20 * k + i, 40 + 20 * k + i) for i in range(20)] for k in range(2)}
    return tree(root, nodes, [*INTEL, (3, "Unified", "28160K")], 64)


def xeon_4_nodes(root, smt=False):
    """Four Xeon E5-4620, as in the paper: 8 cores each, numbered node by node, SMT off unless asked."""
    nodes = {k: [(8 * k + i, 32 + 8 * k + i) if smt else (8 * k + i,) for i in range(8)] for k in range(4)}
    return tree(root, nodes, [*INTEL[:2], (2, "Unified", "256K"), (3, "Unified", "16384K")], 64)


def power9(root):
    """Two POWER9 with SMT4: nodes 0 and 8, four threads of a core in sequence, GPUs as nodes 252-255 without cpus."""
    nodes = {8 * k: [tuple(range(80 * k + 4 * i, 80 * k + 4 * i + 4)) for i in range(20)] for k in range(2)}
    caches = [(1, "Data", "32K"), (1, "Instruction", "32K"), (2, "Unified", "512K"), (3, "Unified", "10240K")]
    return tree(root, nodes, caches, 128, memory_only=(252, 253, 254, 255))


EVERY = range(4096)


def test_two_node_xeon(tmp_path):
    found = read_topology(xeon_2_nodes(tmp_path), EVERY)
    assert [node.number for node in found.nodes] == [0, 1]
    assert [len(node.cores) for node in found.nodes] == [20, 20]
    assert found.nodes[1].cores[0] == (20, 60)
    assert found.nodes[0].cpus == (*range(20), *range(40, 60))
    assert (found.line_bytes, found.last_level_bytes) == (64, 28160 * 1024)


def test_four_node_xeon(tmp_path):
    found = read_topology(xeon_4_nodes(tmp_path), EVERY)
    assert [node.cpus for node in found.nodes] == [tuple(range(8 * k, 8 * k + 8)) for k in range(4)]
    assert all(len(core) == 1 for node in found.nodes for core in node.cores)
    assert found.last_level_bytes == 16 << 20


def test_smt_siblings_are_one_core(tmp_path):
    found = read_topology(xeon_4_nodes(tmp_path, smt=True), EVERY)
    assert [len(node.cores) for node in found.nodes] == [8] * 4
    assert cpus_for(found.nodes[1], 10) == [*range(8, 16), 40, 41]


def test_power9(tmp_path):
    found = read_topology(power9(tmp_path), EVERY)
    assert [node.number for node in found.nodes] == [0, 8]
    assert [len(node.cores) for node in found.nodes] == [20, 20]
    assert found.nodes[1].cores[0] == (80, 81, 82, 83)
    assert (found.line_bytes, found.last_level_bytes) == (128, 10 << 20)
    assert cpus_for(found.nodes[1], 3) == [80, 84, 88]


def test_affinity_leaves_parts_of_nodes(tmp_path):
    found = read_topology(xeon_2_nodes(tmp_path), {0, 1, 40, 21})
    assert [node.cores for node in found.nodes] == [((0, 40), (1,)), ((21,),)]
    only = read_topology(xeon_2_nodes(tmp_path), {25, 65})
    assert [(node.number, node.cores) for node in only.nodes] == [(1, ((25, 65),))]


def test_offline_processors_do_not_count(tmp_path):
    root = xeon_4_nodes(tmp_path)
    write(root / "devices/system/cpu/online", "0-7,9-31")
    assert read_topology(root, EVERY).nodes[1].cpus == tuple(range(9, 16))


@pytest.mark.parametrize("text", ["", "garbage", "3-", "-1", "0-99999999999", "\x00\xff"])
def test_garbage_and_absence_fall_back(tmp_path, text):
    nothing = read_topology(tmp_path / "nowhere", {0, 1, 5})
    assert nothing == Topology((Node(0, ((0,), (1,), (5,))),), 64, 8 << 20)
    root = xeon_2_nodes(tmp_path)
    for path in root.rglob("*"):
        if path.is_file():
            path.write_bytes(text.encode("latin1"))
    assert read_topology(root, {0, 1, 5}) == nothing


def test_this_machine():
    found = read_topology()
    cpus = {cpu for node in found.nodes for cpu in node.cpus}
    assert cpus == set(os.sched_getaffinity(0))
    assert found.line_bytes in (32, 64, 128, 256)


# ---------------------------------------------------------------------------- the paper's rule
@pytest.mark.parametrize(
    ("threads", "home", "expected"),
    [
        (1, None, {0: 1}),
        (8, None, {0: 8}),  # as many as the cores of a node: one node
        (8, 2, {2: 8}),  # where the data lie
        (9, 2, {2: 5, 0: 4}),  # the fewest nodes that hold them, evenly
        (16, 3, {3: 8, 0: 8}),
        (17, None, {0: 6, 1: 6, 2: 5}),
        (32, None, {0: 8, 1: 8, 2: 8, 3: 8}),
        (40, 1, {1: 10, 0: 10, 2: 10, 3: 10}),  # more than cores: all nodes
    ],
)
def test_nodes_for_threads(tmp_path, threads, home, expected):
    chosen = choose_nodes(read_topology(xeon_4_nodes(tmp_path, smt=True), EVERY), threads, home)
    assert {node.number: count for node, count in chosen} == expected


def test_no_threads_is_an_error():
    with pytest.raises(ValueError, match="threads=0"):
        choose_nodes(Topology((Node(0, ((0,),)),)), 0)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 80), st.integers(0, 7))
@settings(max_examples=200, deadline=None)
def test_rule_on_uneven_machines(cores, threads, home):
    nodes = tuple(Node(k, tuple((100 * k + i,) for i in range(count))) for k, count in enumerate(cores))
    chosen = choose_nodes(Topology(nodes), threads, home)
    counts = {node.number: count for node, count in chosen}
    assert sum(counts.values()) == threads
    assert home >= len(cores) or home in counts
    room = sum(cores)
    if threads <= room:
        assert all(count <= cores[k] for k, count in counts.items())
        sizes = sorted((cores[k] for k in counts if k != home), reverse=True)
        fewer = sum(sizes[:-1]) + (cores[home] if home in counts else 0)
        assert len(counts) == 1 or fewer < threads


def test_memory_of_this_process_has_a_node_or_none():
    import numpy as np

    where = node_of_memory(np.ones(1000).ctypes.data)
    assert where is None or where >= 0
    assert node_of_memory(8) is None  # nothing is mapped there


# ---------------------------------------------------------------------------- groups of threads
def test_groups_follow_the_machine(tmp_path, monkeypatch):
    from daskglm.messages import Facts, Plan

    machine = read_topology(xeon_4_nodes(tmp_path), EVERY)
    monkeypatch.setattr(dealing, "machine", lambda: machine)
    monkeypatch.setattr(dealing, "node_of_memory", lambda address: 2)
    facts = [Facts(n_rows=600, nonzeros=6000), Facts(n_rows=400, nonzeros=4000)]
    groups = dealing.groups_of(Plan(), facts, 12, 1234)
    assert [(group.threads, group.partitions) for group in groups] == [(6, 6), (6, 6)]
    assert groups[0].cpus == list(range(16, 22))  # node 2 first: the data are there
    rows = [sum(part.stop - part.first for part in group.ranges) for group in groups]
    assert rows == [500, 500]
    assert len(dealing.groups_of(Plan(), facts, 3, 1234)) == 1


def test_buckets_by_cache_line_and_last_level_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(dealing, "machine", lambda: Topology((), line_bytes=128, last_level_bytes=10 << 20))
    assert dealing.bucket_rows(1000, 1000) == 1
    assert dealing.bucket_rows(2_000_000, 1000) == 16  # alpha does not fit: the paper's rule
    assert dealing.bucket_rows(1000, 1 << 30) == 16  # the rows come from memory


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 50)), min_size=1, max_size=6),
    st.integers(1, 9), st.sampled_from([1, 8]), st.sampled_from(["dynamic", "static"]), st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_every_bucket_is_dealt_once(blocks, partitions, bucket, partitioning, seed):
    import numpy as np

    from daskglm.kernels.dual import _bits, place_of
    from daskglm.messages import Facts, Plan

    facts = [Facts(n_rows=n, nonzeros=n * per_row) for n, per_row in blocks]
    plan = Plan(partitioning=partitioning, partitions=partitions, nodes=1)
    (group,) = dealing.groups_of(plan, facts, 2, 0)
    shares = dealing.deal(group, plan, bucket, np.random.default_rng(seed))
    assert len(shares) == partitions
    visits = [np.zeros(n, int) for n, _ in blocks]
    for part in (part for share in shares for part in share):
        count = -(-(part.stop - part.first) // bucket)
        bits = _bits(count)
        for t in range(part.begin, part.end):
            first = part.first + bucket * place_of(t, count, (1 << bits) - 1, (bits + 1) // 2, part.key)
            visits[part.block][first : min(first + bucket, part.stop)] += 1
    assert all((count == 1).all() for count in visits)
    assert topology.LINE_BYTES == 64

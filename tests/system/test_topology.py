"""The machine as sysfs shows it: trees of real multi-node machines, odd ones, and who works where."""

import ctypes
import mmap
import os
import platform
import re
import tempfile
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskglm.system import topology
from daskglm.system.topology import (
    Node,
    Topology,
    choose_nodes,
    cpus_for,
    node_of_memory,
    read_topology,
)
from tests.system.machines import (
    EVERY,
    one_node,
    power9,
    tree,
    write,
    xeon_2_nodes,
    xeon_4_nodes,
)


def shape(found):
    return {node.number: (len(node.cores), len(node.cpus)) for node in found.nodes}


# ---- real machines
def test_one_node(tmp_path):
    found = read_topology(one_node(tmp_path), EVERY)
    assert found == Topology((Node(0, ((0,), (1,))),), 64, 480 << 20)


def test_two_node_xeon(tmp_path):
    found = read_topology(xeon_2_nodes(tmp_path), EVERY)
    assert (tmp_path / "devices/system/node/node0/cpulist").read_text() == "0-19,40-59\n"
    assert (tmp_path / "devices/system/node/node1/cpulist").read_text() == "20-39,60-79\n"
    assert [node.number for node in found.nodes] == [0, 1]
    assert [len(node.cores) for node in found.nodes] == [20, 20]
    assert found.nodes[1].cores[0] == (20, 60)
    assert found.nodes[0].cpus == (*range(20), *range(40, 60))
    assert (found.line_bytes, found.last_level_bytes) == (64, 28160 * 1024)


def test_processors_numbered_in_turn(tmp_path):
    found = read_topology(xeon_2_nodes(tmp_path, interleaved=True), EVERY)
    assert [node.cpus for node in found.nodes] == [tuple(range(0, 80, 2)), tuple(range(1, 80, 2))]
    assert found.nodes[1].cores[:2] == ((1, 41), (3, 43))
    assert cpus_for(found.nodes[1], 22) == [*range(1, 40, 2), 41, 43]


def test_four_node_xeon(tmp_path):
    found = read_topology(xeon_4_nodes(tmp_path), EVERY)
    assert [node.cpus for node in found.nodes] == [tuple(range(8 * k, 8 * k + 8)) for k in range(4)]
    assert all(len(core) == 1 for node in found.nodes for core in node.cores)
    assert found.last_level_bytes == 16 << 20


def test_smt_siblings_are_one_core(tmp_path):
    found = read_topology(xeon_4_nodes(tmp_path, smt=True), EVERY)
    assert shape(found) == dict.fromkeys(range(4), (8, 16))
    assert cpus_for(found.nodes[1], 10) == [*range(8, 16), 40, 41]


@pytest.mark.parametrize("cores", [20, 22])
def test_power9(tmp_path, cores):
    found = read_topology(power9(tmp_path, cores), EVERY)
    assert shape(found) == {
        0: (cores, 4 * cores),
        8: (cores, 4 * cores),
    }  # in numbers, not in the order of names
    assert [node.number for node in found.nodes] == [0, 8]
    assert found.nodes[1].cores[0] == tuple(range(4 * cores, 4 * cores + 4))
    assert (found.line_bytes, found.last_level_bytes) == (128, 10 << 20)
    assert cpus_for(found.nodes[1], 3) == [4 * cores, 4 * cores + 4, 4 * cores + 8]
    assert cpus_for(found.nodes[0], cores + 2)[-3:] == [4 * cores - 4, 1, 5]


def test_power9_without_smt_keeps_gaps_in_the_numbers(tmp_path):
    found = read_topology(power9(tmp_path, smt=1), EVERY)
    assert [node.cpus for node in found.nodes] == [tuple(range(0, 80, 4)), tuple(range(80, 160, 4))]
    assert shape(found) == {0: (20, 20), 8: (20, 20)}
    assert [(node.number, count) for node, count in choose_nodes(found, 24, home=8)] == [
        (8, 12),
        (0, 12),
    ]


def test_this_machine():
    found = read_topology()
    cpus = [cpu for node in found.nodes for cpu in node.cpus]
    assert sorted(cpus) == sorted(os.sched_getaffinity(0))
    assert found.line_bytes in (32, 64, 128, 256)


# ---- parts of machines
def test_affinity_leaves_parts_of_nodes(tmp_path):
    found = read_topology(xeon_2_nodes(tmp_path), {0, 1, 40, 21})
    assert [node.cores for node in found.nodes] == [((0, 40), (1,)), ((21,),)]
    only = read_topology(xeon_2_nodes(tmp_path), {25, 65})
    assert [(node.number, node.cores) for node in only.nodes] == [(1, ((25, 65),))]


def test_affinity_of_the_process_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 43, 22}, raising=False)
    assert [node.cores for node in read_topology(xeon_2_nodes(tmp_path)).nodes] == [
        ((3, 43),),
        ((22,),),
    ]


def test_isolated_processors_count_only_where_the_affinity_has_them(tmp_path, monkeypatch):
    root = xeon_4_nodes(tmp_path)
    write(
        root / "devices/system/cpu/isolated", "4-7,24-31"
    )  # isolcpus=4-7,24-31: online, in cpulist, not in affinity
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda pid: {*range(4), *range(8, 24)}, raising=False
    )
    assert shape(read_topology(root)) == {0: (4, 4), 1: (8, 8), 2: (8, 8)}
    assert shape(read_topology(root, {3, 4, 5})) == {0: (3, 3)}  # taskset -c 3-5


def test_offline_processors_do_not_count(tmp_path):
    root = xeon_4_nodes(tmp_path)
    write(root / "devices/system/cpu/online", "0-7,9-31")
    assert read_topology(root, EVERY).nodes[1].cpus == tuple(range(9, 16))


def test_nothing_allowed_is_no_node(tmp_path):
    assert read_topology(one_node(tmp_path), ()).nodes == ()


def test_a_sysfs_of_another_machine_does_not_take_the_processors_away(tmp_path):
    assert read_topology(one_node(tmp_path), {6, 7}).nodes == (Node(0, ((6,), (7,))),)


# ---- odd trees
@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "3-",
        "-1",
        "0-99999999999",
        "\x00\xff",
        "\u00b2".encode().decode("latin1"),
        "9" * 5000,
    ],
)
def test_garbage_and_absence_fall_back(tmp_path, text):
    nothing = read_topology(tmp_path / "nowhere", {0, 1, 5})
    assert nothing == Topology((Node(0, ((0,), (1,), (5,))),), 64, 8 << 20)
    root = xeon_2_nodes(tmp_path)
    for path in root.rglob("*"):
        if path.is_file():
            path.write_bytes(text.encode("latin1"))
    assert read_topology(root, {0, 1, 5}) == nothing


@pytest.mark.parametrize("system", ["none", "refused"])
def test_without_sysfs_and_affinity_every_processor_is_a_core(tmp_path, monkeypatch, system):
    def refused(pid):
        raise PermissionError

    if system == "none":  # macOS
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", refused, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert read_topology(tmp_path) == Topology(
        (Node(0, tuple((cpu,) for cpu in range(6))),), 64, 8 << 20
    )
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert read_topology(tmp_path).nodes == (Node(0, ((0,),)),)


def test_without_nodes_the_cores_and_caches_are_still_read(tmp_path):
    root = xeon_2_nodes(tmp_path)
    (root / "devices/system/node").rename(root / "elsewhere")  # a kernel without CONFIG_NUMA
    found = read_topology(root, EVERY)
    assert shape(found) == {0: (40, 80)}
    assert found.nodes[0].cores[20] == (20, 60)
    assert found.last_level_bytes == 28160 * 1024


@pytest.mark.parametrize("text", ["", "garbage", "20-39", "0-19,40-59", "20-39,60-79,60"])
def test_a_map_of_nodes_that_is_wrong_in_part_is_one_node(tmp_path, text):
    root = xeon_2_nodes(tmp_path)
    write(root / "devices/system/node/node1/cpulist", text)
    assert shape(read_topology(root, EVERY)) == {0: (40, 80)}


def test_without_the_list_of_online_processors_the_nodes_tell(tmp_path):
    root = power9(tmp_path)
    (root / "devices/system/cpu/online").unlink()
    found = read_topology(root, range(4, 4096))
    assert shape(found) == {0: (19, 76), 8: (20, 80)}
    assert found.last_level_bytes == 10 << 20


def test_older_and_newer_names_of_the_siblings(tmp_path):
    root = xeon_2_nodes(tmp_path)
    for path in list(root.rglob("thread_siblings_list")):
        path.rename(path.with_name("core_cpus_list"))
    assert shape(read_topology(root, EVERY)) == {0: (20, 40), 1: (20, 40)}


def test_siblings_that_leave_out_their_own_processor_are_not_believed(tmp_path):
    root = one_node(tmp_path)
    for cpu in range(2):
        write(root / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", "7")
    assert read_topology(root, EVERY).nodes[0].cores == ((0,), (1,))


def test_strange_names_and_things_in_the_place_of_files(tmp_path):
    root = one_node(tmp_path)
    system = root / "devices/system"
    (system / "node/node0_old").mkdir()
    (system / "node/node\u00b2").mkdir()
    (system / "cpu/cpu0/cache/index").mkdir()
    (system / "cpu/cpu0/cache/index9x").mkdir()
    (system / "cpu/online").unlink()
    (system / "cpu/online").mkdir()
    loop = system / "cpu/cpu0/topology/thread_siblings_list"
    loop.unlink()
    loop.symlink_to(loop)
    assert read_topology(root, {0, 1}) == Topology((Node(0, ((0,), (1,))),), 64, 480 << 20)
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert read_topology(file, {0}) == Topology((Node(0, ((0,),)),))


def test_last_level_is_the_highest_that_holds_data(tmp_path):
    cache = one_node(tmp_path) / "devices/system/cpu/cpu0/cache"
    write(cache / "index1/level", "4")  # instructions
    write(cache / "index3/size", "32M")
    assert read_topology(tmp_path, EVERY).last_level_bytes == 32 << 20
    (cache / "index3").rename(cache / "index10")  # any order of the entries
    assert read_topology(tmp_path, EVERY).last_level_bytes == 32 << 20
    write(cache / "index10/size", "?")  # not the 2 MiB of the level below
    found = read_topology(tmp_path, EVERY)
    assert found.last_level_bytes == 8 << 20


@pytest.mark.parametrize("text", [None, "0", "-64", "100", "1048576"])
def test_line_of_the_highest_level_that_states_one(tmp_path, text):
    cache = power9(tmp_path) / "devices/system/cpu/cpu0/cache"
    for index in ("index2", "index3"):
        (cache / index / "coherency_line_size").unlink()
        if text is not None:
            write(cache / index / "coherency_line_size", text)
    found = read_topology(tmp_path, EVERY)
    assert (found.line_bytes, found.last_level_bytes) == (128, 10 << 20)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_nothing_raises_whatever_the_files_hold(data):
    text = st.one_of(
        st.binary(max_size=12),
        st.text("0123456789-,KMG \u00b2\u0663", max_size=9).map(str.encode),
        st.sampled_from([b"Unified", b"Data", b"0-3", b"0,1", b"3-0", b"9" * 5000, b"64", b"1K"]),
    )
    with tempfile.TemporaryDirectory() as folder:
        root = tree(
            Path(folder),
            {0: [(0, 2)], 1: [(1, 3)]},
            [(1, "Data", "32K", 1), (2, "Unified", "1M", 1)],
            64,
        )
        files = sorted(path for path in root.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), max_size=8)):
            path.write_bytes(data.draw(text))
        allowed = data.draw(st.sets(st.integers(0, 5), min_size=1))
        found = read_topology(root, allowed)
    cpus = [cpu for node in found.nodes for core in node.cores for cpu in core]
    assert cpus
    assert len(set(cpus)) == len(cpus)
    assert set(cpus) <= allowed
    assert all(node.cores and all(node.cores) for node in found.nodes)
    assert found.line_bytes in topology.LINES
    assert found.last_level_bytes > 0


# ---- the paper's rule
def numbers(chosen):
    return {node.number: count for node, count in chosen}


@pytest.mark.parametrize(
    ("threads", "home", "expected"),
    [
        (1, None, {0: 1}),
        (1, 3, {3: 1}),
        (8, None, {0: 8}),  # as many as the cores of a node: one node
        (8, 2, {2: 8}),  # where the data lie
        (9, None, {0: 5, 1: 4}),
        (9, 2, {2: 5, 0: 4}),  # the fewest nodes that hold them, evenly
        (16, 3, {3: 8, 0: 8}),
        (17, None, {0: 6, 1: 6, 2: 5}),
        (24, 3, {3: 8, 0: 8, 1: 8}),
        (25, 3, {3: 7, 0: 6, 1: 6, 2: 6}),
        (32, None, {0: 8, 1: 8, 2: 8, 3: 8}),
        (33, 1, {1: 9, 0: 8, 2: 8, 3: 8}),
        (40, 1, {1: 10, 0: 10, 2: 10, 3: 10}),  # more than cores: all nodes
        (64, None, {0: 16, 1: 16, 2: 16, 3: 16}),
        (66, None, {0: 17, 1: 17, 2: 16, 3: 16}),  # more than processors
    ],
)
def test_nodes_for_threads(tmp_path, threads, home, expected):
    chosen = choose_nodes(read_topology(xeon_4_nodes(tmp_path, smt=True), EVERY), threads, home)
    assert numbers(chosen) == expected
    assert home is None or chosen[0][0].number == home


@pytest.mark.parametrize(
    ("threads", "home", "expected"),
    [
        (20, None, {0: 20}),
        (20, 8, {8: 20}),
        (21, 8, {8: 11, 0: 10}),
        (20, 252, {0: 20}),  # the data lie in a GPU: nobody can work there
        (20, 1, {0: 20}),  # no such node
        (160, 8, {8: 80, 0: 80}),
    ],
)
def test_nodes_for_threads_on_power9(tmp_path, threads, home, expected):
    assert numbers(choose_nodes(read_topology(power9(tmp_path), EVERY), threads, home)) == expected


@pytest.mark.parametrize(
    ("threads", "home", "expected"),
    [
        (2, None, {1: 2}),  # the largest holds them alone
        (2, 0, {0: 2}),
        (3, 0, {0: 2, 1: 1}),
        (12, 0, {0: 2, 1: 10}),  # even as far as the cores go
        (20, None, {1: 20}),
        (22, None, {1: 20, 0: 2}),
        (24, None, {1: 20, 0: 4}),  # siblings of the small node first, not more than it has
        (44, None, {1: 40, 0: 4}),
        (55, None, {1: 50, 0: 5}),
    ],
)
def test_affinity_makes_nodes_uneven(tmp_path, threads, home, expected):
    allowed = {0, 1, 40, 41, *range(20, 40), *range(60, 80)}
    assert (
        numbers(choose_nodes(read_topology(xeon_2_nodes(tmp_path), allowed), threads, home))
        == expected
    )


@pytest.mark.parametrize("threads", [0, -3])
def test_no_threads_is_an_error(threads):
    with pytest.raises(ValueError, match=f"threads={threads} must be at least 1"):
        choose_nodes(Topology((Node(0, ((0,),)),)), threads)


def test_no_nodes_is_an_error():
    with pytest.raises(ValueError, match="no nodes"):
        choose_nodes(Topology(()), 1)


@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=5),
    st.integers(1, 120),
    st.sampled_from([None, 0, 8, 16, 252]),
)
@settings(max_examples=300, deadline=None)
def test_rule_on_uneven_machines(machine, threads, home):
    """Nodes 0, 8, 16, ...: each a list of the siblings of its cores."""
    nodes = tuple(
        Node(
            8 * k,
            tuple(tuple(1000 * k + 10 * i + j for j in range(n)) for i, n in enumerate(cores)),
        )
        for k, cores in enumerate(machine)
    )
    cores = {node.number: len(node.cores) for node in nodes}
    cpus = {node.number: len(node.cpus) for node in nodes}
    chosen = choose_nodes(Topology(nodes), threads, home)
    counts = numbers(chosen)
    assert sum(counts.values()) == threads
    assert len(counts) == len(chosen)
    assert all(count >= 1 for count in counts.values())
    assert home not in cores or chosen[0][0].number == home
    if threads <= sum(cores.values()):
        room = cores
        fewest = min(
            size
            for size in range(1, len(nodes) + 1)
            for some in combinations(cores, size)
            if sum(cores[number] for number in some) >= threads
            and (home not in cores or home in some)
        )
        assert len(counts) == fewest
    else:
        room = cpus
        assert set(counts) == set(cores)
        assert all(counts[number] >= cores[number] for number in cores)
    if threads <= sum(cpus.values()):
        assert all(count <= room[number] for number, count in counts.items())
        started = {number: 0 if room is cores else cores[number] for number in counts}
        for low in (
            counts
        ):  # whoever has two less than another is full, unless the other's cores were as many
            for high in counts:
                level = counts[high] - counts[low] <= 1
                assert level or counts[low] == room[low] or counts[high] == started[high]
    else:
        shares = [count / cpus[number] for number, count in counts.items()]
        assert min(shares) >= 1
        assert max(shares) - min(shares) <= 1


def test_threads_go_to_cores_first_then_to_siblings_then_round():
    node = Node(0, ((0, 4, 8), (1,), (2, 6)))
    assert node.cpus == (0, 1, 2, 4, 6, 8)
    assert cpus_for(node, 2) == [0, 1]
    assert cpus_for(node, 6) == [0, 1, 2, 4, 6, 8]
    assert cpus_for(node, 8) == [0, 1, 2, 4, 6, 8, 0, 1]


# ---- where memory lies
def test_memory_of_this_process_has_a_node():
    with mmap.mmap(-1, 1 << 20) as pages:
        pages[: 1 << 19] = bytes(1 << 19)  # a page lies nowhere before it is written
        start = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(start)
        where = [node_of_memory(address + offset) for offset in (0, 1, 4097)]
        nowhere = node_of_memory(address + (1 << 20) - 4096)
        del start
    known = [int(path.name[4:]) for path in Path("/sys/devices/system/node").glob("node[0-9]*")]
    status = Path("/proc/self/status")
    free = status.exists() and re.search(
        r"^Seccomp:\s+0$", status.read_text(), re.M
    )  # containers refuse move_pages
    if known and free and platform.machine() in topology.MOVE_PAGES:
        assert where[0] in known
    assert set(where) in [{None}, *({number} for number in known)]
    assert nowhere is None or nowhere in known  # a huge page may reach there
    assert node_of_memory(8) is None  # nothing is mapped there


def test_memory_is_asked_by_number_and_only_where_the_number_is_known(monkeypatch):
    asked = []

    class Library:
        def __init__(self, *args, **kwargs):
            pass

        def syscall(self, number, process, count, pages, nodes, status, flags):
            asked.append((number.value, process, count.value, pages._obj.value, nodes, flags))
            status._obj.value = answers.pop()
            return returned

    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(os, "sysconf", lambda name: 65536)
    answers, returned = [8, 3, 0], 0
    for machine, number, node in (("x86_64", 279, 0), ("aarch64", 239, 3), ("ppc64le", 301, 8)):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert node_of_memory(5 * 65536 + 12345) == node
        assert asked.pop() == (number, 0, 1, 5 * 65536, None, 0)
    answers = [-14]  # EFAULT, of the page
    assert node_of_memory(65536) is None
    answers, returned = [0], -1  # the call is refused
    assert node_of_memory(65536) is None
    asked.clear()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert node_of_memory(65536) is None
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "system", lambda: "FreeBSD")
    assert node_of_memory(65536) is None
    assert not asked


# ---- groups of threads

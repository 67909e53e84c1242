"""Plans for the workers of a machine, and the commands that start them."""

from pathlib import Path

import pytest

from daskglm.launch import machine
from daskglm.system.topology import Node, Topology

TWO = Topology(
    (Node(0, ((0, 8), (1, 9), (2, 10), (3, 11))), Node(1, ((4, 12), (5, 13), (6, 14), (7, 15))))
)


GIB = {0: 100, 1: 60}


def test_one_worker_a_node_with_its_cores_and_memory():
    first, second = machine.plan(TWO, GIB)
    assert first == machine.Slot((0,), (0, 1, 2, 3, 8, 9, 10, 11), 4, 100)
    assert second == machine.Slot((1,), (4, 5, 6, 7, 12, 13, 14, 15), 4, 60)


def test_fewer_workers_get_whole_nodes_and_more_share_cores():
    (whole,) = machine.plan(TWO, GIB, workers=1)
    assert (whole.nodes, whole.threads, whole.memory) == ((0, 1), 8, 160)
    four = machine.plan(TWO, GIB, workers=4)
    assert [slot.cpus for slot in four] == [
        (0, 1, 8, 9),
        (2, 3, 10, 11),
        (4, 5, 12, 13),
        (6, 7, 14, 15),
    ]
    assert [slot.memory for slot in four] == [50, 50, 30, 30]
    three = machine.plan(TWO, GIB, workers=3)
    assert sorted(cpu for slot in three for cpu in slot.cpus) == list(range(16))
    crowded = machine.plan(Topology((Node(0, ((0,), (1,))),)), {0: 10}, workers=5)
    assert [slot.threads for slot in crowded] == [1] * 5
    assert {cpu for slot in crowded for cpu in slot.cpus} == {0, 1}
    assert [slot.threads for slot in machine.plan(TWO, GIB, threads=3)] == [3, 3]
    with pytest.raises(ValueError, match="at least 1"):
        machine.plan(TWO, GIB, workers=0)


def test_memory_of_nodes_stays_within_the_limit(tmp_path):
    for node, size in ((0, 1000), (1, 3000)):
        folder = tmp_path / "devices" / "system" / "node" / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "meminfo").write_text(
            f"Node {node} MemTotal:  {size} kB\nNode {node} MemFree: 1 kB\n"
        )
    found = machine.memory_of_nodes(TWO, 4000 * 1024, tmp_path)
    assert found == {0: int(0.9 * 1000 * 1024), 1: int(0.9 * 3000 * 1024)}
    half = machine.memory_of_nodes(TWO, 2000 * 1024, tmp_path)  # a container's limit
    assert sum(half.values()) == pytest.approx(0.9 * 2000 * 1024, abs=2)
    assert machine.memory_of_nodes(TWO, 1000, tmp_path / "none") == {0: 450, 1: 450}


def test_commands_bind_and_listen_where_they_should(monkeypatch):
    slot = machine.Slot((1,), (4, 5), 2, 1000)
    monkeypatch.setattr(machine, "can_bind_memory", lambda slot: True)
    command = machine.worker_command(slot, ["tcp://a:1"], "w", [])
    assert command[:3] == ["numactl", "--physcpubind=4,5", "--membind=1"]
    joined = " ".join(command)
    assert "--nthreads 2 --memory-limit 1000 --name w" in joined
    assert "--dashboard-address 127.0.0.1:0" in joined
    scheduler = " ".join(
        machine.scheduler_command("::1", 0, Path("f"), encrypted=True, dashboard=None)
    )
    assert "tls://[::1]" in scheduler
    assert "--no-dashboard" in scheduler
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert machine.environment(3)["OMP_NUM_THREADS"] == "7", "the user's environment wins"
    assert machine.environment(3)["NUMBA_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        ("0,1", ["0", "1"]),
        (" 2 , GPU-8932f937", ["2", "GPU-8932f937"]),
        ("", []),
        ("-1", []),
        ("3,-1,1", ["3"]),
    ],
)
def test_gpus_are_those_that_cuda_shows(monkeypatch, visible, gpus):
    pytest.importorskip("dask_cuda", reason="GPUs are listed by dask-cuda, which is not installed")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.visible_gpus() == gpus

"""Starting clusters: what is planned, TLS, how processes live and end, and the commands as users call them."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from daskglm.cli import main
from daskglm.launch import machine, ssh, tls
from daskglm.launch.options import WorkerOptions
from daskglm.launch.processes import Process, ProcessEnded, Processes
from daskglm.system.topology import Node, Topology
from tests.conftest import listen_to_sigint

ROOT = Path(__file__).resolve().parents[2]
TWO = Topology(
    (Node(0, ((0, 8), (1, 9), (2, 10), (3, 11))), Node(1, ((4, 12), (5, 13), (6, 14), (7, 15))))
)
GIB = {0: 100, 1: 60}


# ---- plans
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


# ---- TLS
def test_certificates_are_believed_by_ssl_and_kept_to_the_user(tmp_path):
    made = tls.make_certificates(tmp_path / "a", ["host.example", "10.0.0.1"])
    assert {path.stat().st_mode & 0o777 for path in made.values()} == {0o600}
    context = ssl.create_default_context(cafile=made["ca-file"])
    context.load_cert_chain(made["cert"], made["key"])
    assert context.cert_store_stats()["x509_ca"] == 1
    with pytest.raises(FileExistsError, match="exists already"):
        tls.make_certificates(tmp_path / "a")
    found = tls.settings(tmp_path / "a")
    assert found["distributed.comm.require-encryption"] is True
    assert found["distributed.comm.tls.worker.key"].endswith("/a/key.pem")
    assert tls.environment(tmp_path / "a")["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"
    assert tls.settings(None) == {}
    made["key"].chmod(0o604)
    with pytest.raises(PermissionError, match="chmod 600"):
        tls.check_folder(tmp_path / "a")
    made["cert"].unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks cert.pem: make them with"):
        tls.check_folder(tmp_path / "a")


# ---- hosts
def test_host_files(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# ours\nnode1\n me@node2.example  # the fast one\n\n[fe80::1]\n")
    assert ssh.read_hosts(file) == ["node1", "me@node2.example", "[fe80::1]"]
    for text, message in (
        ("", "names no hosts"),
        ("a\na\n", "line 2: 'a' is named twice"),
        ("-oProxyCommand=evil\n", "line 1: '-oProxyCommand=evil' is not a host"),
        ("two words\n", "is not a host"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            ssh.read_hosts(file)
    remote = ssh.Remote("me@node2", ("-p22",), "/a folder", "python3")
    assert (
        remote.daskglm(["info", "x y"])[-1]
        == "cd '/a folder' && exec python3 -m daskglm info 'x y'"
    )
    assert remote.name == "node2"


# ---- processes
def python(code):
    return [sys.executable, "-c", code]


def test_processes_start_again_or_end_the_cluster(monkeypatch, tmp_path):
    monkeypatch.setattr("daskglm.launch.processes.MIN_LIFETIME_SECONDS", 0.0)
    log = tmp_path / "log"
    once = python(f"open({str(log)!r}, 'a').write('x')")
    with Processes() as running:
        running.start(Process("worker", once, os.environ, restart=True))
        deadline = time.monotonic() + 20
        while (not log.exists() or len(log.read_text()) < 3) and time.monotonic() < deadline:
            running.check()
            time.sleep(0.02)
    assert len(log.read_text()) >= 3
    for code, restart in (("raise SystemExit(3)", True), ("", False)):
        with Processes() as running:
            running.start(Process("the thing", python(code), os.environ, restart=restart))
            running.running[0].popen.wait()
            with pytest.raises(ProcessEnded, match=r"the thing has ended \(exit code [03]\)"):
                running.check()


def test_a_command_that_has_lost_its_machine_is_let_go(monkeypatch):
    monkeypatch.setattr("daskglm.launch.processes.MIN_LIFETIME_SECONDS", 0.0)
    with Processes() as running:
        lost = python("raise SystemExit(255)")
        running.start(Process("far", lost, os.environ, restart=True, disconnect_code=255))
        running.start(Process("near", python("import time; time.sleep(60)"), os.environ))
        running.running[0].popen.wait()
        running.check()
        assert [process.name for process in running.running] == ["near"]


def test_stubborn_processes_and_their_children_are_killed(monkeypatch):
    monkeypatch.setattr("daskglm.launch.processes.GRACE_SECONDS", 0.5)
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, "
        "signal.SIG_IGN);subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "time.sleep(60)"
    )
    with Processes() as running:
        one = [min(os.sched_getaffinity(0))]
        running.start(Process("stubborn", python(code), os.environ, cpus=one))
        process = psutil.Process(running.running[0].popen.pid)
        deadline = time.monotonic() + 10
        while not process.children() and time.monotonic() < deadline:
            time.sleep(0.05)
        family = [process, *process.children()]
        assert process.cpu_affinity() == [min(os.sched_getaffinity(0))]
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.skipif(sys.platform != "linux", reason="by a call of Linux")
def test_processes_end_with_a_launcher_that_is_killed():
    code = (
        "import os, sys, time\n"
        "from daskglm.launch.processes import Process, Processes\n"
        "running = Processes()\n"
        "running.start(Process('x', [sys.executable, '-c', 'import time; time.sleep(60)'], os.environ))\n"
        "print(running.running[0].popen.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(python(code), stdout=subprocess.PIPE, text=True) as launcher:
        process = psutil.Process(int(launcher.stdout.readline()))
        launcher.kill()
    _, alive = psutil.wait_procs([process], timeout=10)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


# ---- commands
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["workers"], "give the scheduler's ADDRESS or --scheduler-file"),
        (["workers", "node1:8786"], "is no address"),
        (["workers", "tls://node1:8786"], "belong together"),
        (["workers", "--plan", "--memory", "lots"], "not a number of bytes"),
        (["local", "--workers", "0"], "Invalid value for '--workers'"),
        (["local", "--tls-dir", "/no/such/folder"], "does not exist"),
        (["ssh", "no-such-file"], "does not exist"),
        (["check"], "give the scheduler's ADDRESS or --scheduler-file"),
    ],
)
def test_wrong_arguments_are_told_before_anything_starts(arguments, message, monkeypatch):
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    result = CliRunner().invoke(main, ["cluster", *arguments])
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())


def test_a_port_in_use_and_an_address_of_others_are_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(main, ["cluster", "local", "--port", port])
        assert result.exit_code == 2
        assert f"cannot listen on 127.0.0.1:{port} (Address already in use" in " ".join(
            result.output.split()
        )
    result = CliRunner().invoke(
        main, ["cluster", "scheduler", "--host", "192.0.2.1"]
    )  # reserved for examples
    assert result.exit_code == 2
    assert "'192.0.2.1' is not an address of this machine" in " ".join(result.output.split())


def test_check_gives_up_where_no_scheduler_writes_its_file(tmp_path):
    file = tmp_path / "scheduler.json"
    result = CliRunner().invoke(
        main, ["cluster", "check", "--scheduler-file", str(file), "--timeout", "1"]
    )
    assert result.exit_code == 1
    assert f"did not write its address to {file} within 1 s" in result.output


def test_options_of_workers_are_passed_on_as_they_were_given():
    assert WorkerOptions(2, None, 10**9, "cuda").arguments() == [
        "--workers=2",
        "--memory=1000000000",
        "--device=cuda",
    ]


def test_the_plan_is_one_line_a_worker(monkeypatch):
    result = CliRunner().invoke(
        main, ["cluster", "workers", "--plan", "--workers", "3", "--memory", "1GB"]
    )
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [line["memory"] for line in lines] == [10**9] * 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    pytest.importorskip("dask_cuda")
    result = CliRunner().invoke(main, ["cluster", "workers", "--plan", "--device", "cuda"])
    assert [json.loads(line) for line in result.output.splitlines()] == [{"gpu": "0"}, {"gpu": "3"}]


def launched(*arguments, **options):
    command = [
        str(ROOT / "deploy" / "local"),
        "--port",
        "0",
        "--workers",
        "2",
        *map(str, arguments),
    ]
    environment = {**os.environ, "DASKGLM_PYTHON": sys.executable}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command, env=environment, preexec_fn=listen_to_sigint, **pipes, **options
    )


@pytest.mark.slow
def test_a_local_cluster_with_tls_lets_nobody_else_in(tmp_path):
    for name in "ab":
        tls.make_certificates(tmp_path / name)
    (tmp_path / "try.py").write_text(
        "import sys, psutil\n"
        "from distributed import Client\n"
        "from distributed.security import Security\n"
        "with Client() as client:\n"
        "    address = client.scheduler.address\n"
        "    assert address.startswith('tls://'), address\n"
        "    assert client.submit(sum, [1, 2]).result() == 3\n"
        "    threads = client.run(lambda: __import__('os').environ['OMP_NUM_THREADS'])\n"
        "    assert set(threads.values()) == {'1'}, threads\n"
        "me = psutil.Process().parent()\n"
        "listening = {c.laddr.ip for p in me.children(recursive=True) for c in p.net_connections() if c.status == 'LISTEN'}\n"
        "assert listening <= {'127.0.0.1'}, listening\n"
        f"files = [{str(tmp_path / 'b')!r} + '/' + name for name in ('ca.pem', 'cert.pem', 'key.pem')]\n"
        "other = Security(tls_ca_file=files[0], tls_client_cert=files[1], tls_client_key=files[2], require_encryption=True)\n"
        "for where, how in ((address, other), (address.replace('tls', 'tcp'), Security(require_encryption=False))):\n"
        "    try:\n"
        "        Client(where, security=how, timeout=3)\n"
        "    except (OSError, RuntimeError) as error:\n"
        "        print('refused', type(error).__name__)\n"
        "    else:\n"
        "        sys.exit('let in')\n"
        "sys.exit(7)\n"
    )
    process = launched("--tls-dir", tmp_path / "a", "--", sys.executable, tmp_path / "try.py")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 7, err
    assert out.count("refused") == 2
    assert "2 workers on 1 host(s)" in err
    assert "a fit on all of them gave the right answer" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_the_launcher_leaves_nothing_running(number):
    process = launched()
    address = process.stdout.readline()  # after the fit that tries the cluster
    family = psutil.Process(process.pid).children(recursive=True)
    assert address.startswith("tcp://127.0.0.1:")
    assert len(family) >= 5, "a scheduler, two nannies, two workers"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


@pytest.mark.slow
def test_a_worker_that_ends_is_brought_back():
    code = (
        "import os, signal, time\n"
        "from distributed import Client\n"
        "with Client() as client:\n"
        "    nannies = [w['nanny'] for w in client.scheduler_info()['workers'].values()]\n"
        "    before = set(client.run(os.getpid).values())\n"
        "    client.retire_workers(list(client.nthreads())[:1], close_workers=True)\n"
        "    deadline = time.monotonic() + 40\n"
        "    while time.monotonic() < deadline:\n"
        "        time.sleep(0.5)\n"
        "        now = set(client.run(os.getpid).values())\n"
        "        if len(now) == 2 and now != before: break\n"
        "    else: raise SystemExit(f'{before} {now}')\n"
    )
    process = launched("--", sys.executable, "-c", f"import time; time.sleep(5)\n{code}")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "starting it again" in err or out is not None


@pytest.mark.slow
def test_a_failing_command_or_port_is_told():
    process = launched("--port", "99999")
    assert "99999 is not in the range" in process.communicate(timeout=60)[1]
    process = launched("--", "no-such-command")
    assert "no-such-command" in process.communicate(timeout=60)[1]
    assert process.returncode == 1


@pytest.mark.slow
def test_one_worker_for_each_gpu(monkeypatch):
    """By dask-cuda, with its own switch for tests without a GPU: two workers, each with one of the two first."""
    pytest.importorskip("dask_cuda")
    monkeypatch.setenv("DASK_CUDA_TEST_DISABLE_DEVICE_SPECIFIC", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    ask = "from distributed import Client; print(Client().run(lambda: __import__('os').environ['CUDA_VISIBLE_DEVICES']))"
    command = [
        str(ROOT / "deploy" / "local"),
        "--port",
        "0",
        "--device",
        "cuda",
        "--",
        sys.executable,
        "-c",
        ask,
    ]
    environment = {**os.environ, "DASKGLM_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'0,1'" in done.stdout
    assert "'1,0'" in done.stdout

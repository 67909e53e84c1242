"""Launched clusters: workers come back, and nothing is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from daskglm.launch import tls
from tests.conftest import listen_to_sigint

ROOT = Path(__file__).resolve().parents[2]


def launched(*arguments, **options):
    command = [
        str(ROOT / "deploy" / "local"),
        "--port",
        "0",
        "--workers",
        "2",
        *map(str, arguments),
    ]
    # a count of threads from outside would be the workers' too
    outside = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    environment = {**outside, "DASKGLM_PYTHON": sys.executable}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command, env=environment, preexec_fn=listen_to_sigint, **pipes, **options
    )


@pytest.mark.nightly
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


@pytest.mark.nightly
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


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_a_failing_command_or_port_is_told():
    process = launched("--port", "99999")
    assert "99999 is not in the range" in process.communicate(timeout=60)[1]
    process = launched("--", "no-such-command")
    assert "no-such-command" in process.communicate(timeout=60)[1]
    assert process.returncode == 1


@pytest.mark.nightly
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
    # a count of threads from outside would be the workers' too
    outside = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    environment = {**outside, "DASKGLM_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'0,1'" in done.stdout
    assert "'1,0'" in done.stdout

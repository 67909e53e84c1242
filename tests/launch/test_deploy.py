"""The scripts in `deploy/` run for real: over ssh to hosts that are network namespaces, under SLURM, under mpirun.

What they need besides root is installed by deploy/tests/setup.sh.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daskglm.launch import tls
from tests.launch.hosts import BRIDGE, HOSTS, Hosts, refusal, sh

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ASK = "from distributed import Client; c = Client(); print('WORKERS', *sorted(c.nthreads()))"
COMMAND = ["--", sys.executable, "-c", ASK]
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if reason := refusal():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DASKGLM_PYTHON", sys.executable)
        try:
            running = Hosts(tmp_path_factory.mktemp("hosts")).__enter__()
        except RuntimeError as error:
            pytest.skip(f"this kernel refuses hosts as network namespaces: {error}")
        yield running
        running.__exit__()


def needs(*tools, module=None):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if module and importlib.util.find_spec(module) is None:
        missing.append(module)
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: run deploy/tests/setup.sh")


def workers_in(text):
    (line,) = [line for line in text.splitlines() if line.startswith("WORKERS")]
    return line.split()[1:]


def on_both(addresses, protocol="tcp"):
    return [a.rpartition(":")[0] for a in addresses] == [
        f"{protocol}://10.78.0.{n}" for n in HOSTS.values()
    ]


@pytest.mark.root
@pytest.mark.parametrize("encrypted", [False, True], ids=["tcp", "tls"])
def test_ssh(hosts, tmp_path, encrypted):
    file = tmp_path / "hosts"
    file.write_text("".join(f"root@{hosts.address(name)}\n" for name in HOSTS))
    more = []
    if encrypted:
        tls.make_certificates(tmp_path / "tls")
        more = ["--tls-dir", tmp_path / "tls"]
    where = ["--folder", ROOT, "--python", sys.executable]
    done = sh(
        DEPLOY / "ssh",
        file,
        *hosts.ssh_options,
        *where,
        "--workers",
        1,
        *more,
        *COMMAND,
        timeout=200,
    )
    assert on_both(workers_in(done.stdout), "tls" if encrypted else "tcp"), done.stdout
    assert "2 workers on 2 host(s)" in done.stderr
    hosts.wait_for(lambda: not ours_left(), "the end of what ran on the hosts", 30)


def ours_left():
    """Processes of a cluster on the hosts; their launchers are told that the link is gone, and take a moment."""
    pids = [pid for name in HOSTS for pid in sh("ip", "netns", "pids", name).stdout.split()]
    lines = [sh("ps", "-o", "args=", "-p", pid, check=False).stdout for pid in pids]
    return [line for line in lines if "daskglm" in line or "distributed" in line]


@pytest.mark.root
def test_ssh_tells_what_a_host_said(hosts, tmp_path):
    file = tmp_path / "hosts"
    file.write_text(f"root@{hosts.address('dgw1')}\n")
    done = sh(
        DEPLOY / "ssh",
        file,
        *hosts.ssh_options,
        "--folder",
        "/no/such/folder",
        check=False,
        timeout=100,
    )
    assert done.returncode == 1
    assert "/no/such/folder" in done.stderr


@pytest.mark.root
def test_slurm(hosts, tmp_path):
    needs("slurmctld", "slurmd", "munged", "sbatch")
    environment = hosts.slurm()
    shared = {
        "env": {**environment, "DASKGLM_ROOT": str(ROOT)},
        "cwd": tmp_path,
        "timeout": 200,
        "check": False,
    }
    script = DEPLOY / "slurm" / "daskglm.sbatch"
    out = tmp_path / "out"
    done = sh(
        "sbatch",
        "--wait",
        "-o",
        out,
        script,
        "--workers",
        1,
        "--interface",
        "eth0",
        *COMMAND,
        **shared,
    )
    text = out.read_text()
    assert done.returncode == 0, text
    assert on_both(workers_in(text)), text
    assert not list(tmp_path.glob(".daskglm-*.json"))
    assert sh("sbatch", "--wait", "-o", out, script, "--workers", 1, **shared).returncode != 0
    assert "no COMMAND: write it after --" in out.read_text()

    needs(module="dask_jobqueue")
    networks = [
        "--interface",
        "eth0",
        "--scheduler-interface",
        BRIDGE,
        "--extra=--exclusive",
        "--timeout",
        100,
    ]
    recipe = [
        sys.executable,
        DEPLOY / "slurm" / "jobqueue.py",
        "--jobs",
        2,
        "--cores",
        1,
        "--memory",
        "1GB",
    ]
    done = sh(*recipe, *networks, **shared)
    assert "2 workers on 2 host(s)" in done.stdout, done.stderr


@pytest.mark.root
def test_mpi(tmp_path):
    needs("mpirun.openmpi", module="dask_mpi")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    run = [
        "mpirun.openmpi",
        *root,
        "--oversubscribe",
        "-n",
        "3",
        sys.executable,
        DEPLOY / "mpi" / "daskglm_mpi.py",
    ]
    done = sh(*run, "--threads", 1, *COMMAND, cwd=tmp_path, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert len(workers_in(done.stdout)) == 1
    done = sh(
        *run,
        "--threads",
        1,
        "--",
        sys.executable,
        "-c",
        "raise SystemExit(5)",
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode != 0


@pytest.mark.parametrize(
    "script", ["local", "ssh", "slurm/daskglm.sbatch", "slurm/jobqueue.py", "mpi/daskglm_mpi.py"]
)
def test_every_launcher_has_help(script):
    needs(module="dask_mpi" if "mpi" in script else None)
    command = [sys.executable] if script.endswith(".py") else []
    environment = {**os.environ, "DASKGLM_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, DEPLOY / script, "--help"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "--timeout" in done.stdout


def test_scripts_are_clean_for_shellcheck():
    needs("shellcheck")
    scripts = [
        "deploy/local",
        "deploy/ssh",
        "deploy/environment.sh",
        "deploy/slurm/daskglm.sbatch",
        "deploy/tests/setup.sh",
    ]
    sh("shellcheck", "-x", *scripts, "benchmarks/gpu_report.sh", cwd=ROOT)

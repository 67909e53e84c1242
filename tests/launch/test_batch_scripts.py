"""Scripts for batch systems: they listen on the network asked for, or not at all."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskglm.launch import tls

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def module(path):
    spec = importlib.util.spec_from_file_location("recipe", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


FAKES = {
    "srun": 'while [[ "$1" == --* ]]; do shift; done; echo "$*" >> "$LOG"; exec "$@"',
    "scontrol": "echo node1; echo node2",
    "hostname": '[[ "${NAMELESS:-}" ]] && exit 1; echo node1',
    "ip": '[[ "$*" == *" lo" ]] || { echo "Device does not exist." >&2; exit 1; }; echo "1: lo inet 127.0.0.1/8 scope"',
}


def batch(tmp_path, *options, **environment):
    for name, body in FAKES.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    python = tmp_path / "python"  # logs what it is asked to run, and ends
    python.write_text('#!/usr/bin/env bash\necho "python $*" >> "$LOG"\n')
    python.chmod(0o755)
    settings = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "DASKGLM_ROOT": str(ROOT),
        "DASKGLM_PYTHON": str(python),
        **environment,
    }
    command = [
        "bash",
        str(DEPLOY / "slurm" / "daskglm.sbatch"),
        "--timeout",
        "5",
        *options,
        "--",
        "true",
    ]
    done = subprocess.run(
        command, env=settings, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    return done, (tmp_path / "log").read_text()


def test_a_misspelt_network_ends_the_batch_script_before_anything_listens(tmp_path):
    done, log = batch(tmp_path, "--interface", "eht0")
    assert done.returncode == 1
    assert "--interface eht0: node1 has no such network, or no IPv4 address on it" in done.stderr
    assert "no cluster was started" in done.stderr
    assert "cluster scheduler" not in log
    assert "cluster workers" not in log


def test_a_node_without_a_name_ends_the_batch_script(tmp_path):
    done, log = batch(tmp_path, NAMELESS="1")
    assert done.returncode == 1
    assert "give --interface" in done.stderr
    assert "cluster scheduler" not in log


def test_the_batch_script_listens_on_the_network_asked_for(tmp_path):
    done, log = batch(tmp_path, "--interface", "lo")
    assert "python -m daskglm cluster scheduler --host 127.0.0.1 --port 0" in log
    assert (
        "the scheduler on node1 has ended; no cluster was started" in done.stderr
    )  # that of this test does so
    assert done.returncode == 1


def test_jobqueue_never_listens_everywhere_and_can_encrypt(tmp_path):
    recipe = module(DEPLOY / "slurm" / "jobqueue.py")
    plain = recipe.arguments("lo")
    assert plain["scheduler_options"] == {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    assert plain["interface"] == "lo"
    with pytest.raises(ValueError, match="is empty, which would listen on all addresses"):
        recipe.arguments(" ")
    with pytest.raises(ValueError, match="'eht0' is none of this machine's"):
        recipe.arguments("ib0", "eht0")
    tls.make_certificates(tmp_path / "tls")
    found = recipe.arguments("lo", None, tmp_path / "tls")
    assert found["protocol"] == "tls://"
    assert found["security"].require_encryption
    config = found["security"].get_tls_config_for_role("worker")
    files = [config[name] for name in ("ca_file", "cert", "key")]
    assert files == [str(tmp_path / "tls" / name) for name in ("ca.pem", "cert.pem", "key.pem")]
    needed = ["--jobs", "1", "--cores", "1", "--memory", "1GB"]
    assert "Missing option '--interface'" in CliRunner().invoke(recipe.main, needed).output
    result = CliRunner().invoke(recipe.main, [*needed, "--interface", "eht0"])
    assert result.exit_code == 2
    assert "eht0" in result.output


@pytest.mark.slow
def test_mpi_wants_a_network_that_is_there():
    for name in ("", "eht0"):
        command = [
            sys.executable,
            DEPLOY / "mpi" / "daskglm_mpi.py",
            "--interface",
            name,
            "--",
            "true",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2, done.stderr
        assert "is none of this machine's" in " ".join(done.stderr.split())

"""Processes of a launcher: restarted, dropped, and ended with it."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from click.testing import CliRunner

from daskglm.launch.commands import cluster
from daskglm.launch.processes import Process, ProcessEnded, Processes, scheduler_file


def python(code):
    return [sys.executable, "-c", code]


@pytest.mark.slow
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


def test_a_scheduler_file_does_not_replace_a_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with (
            pytest.raises(ValueError, match="is a folder or a device, not a file"),
            scheduler_file(path),
        ):
            pass
    assert (tmp_path / "pipe").is_fifo()


def test_where_no_process_can_be_bound_it_runs_unbound(monkeypatch):
    monkeypatch.delattr(psutil.Process, "cpu_affinity")  # as on macOS
    with Processes() as running:
        running.start(Process("free", python("import time; time.sleep(60)"), os.environ, cpus=[0]))
        assert running.running[0].popen.poll() is None


def test_windows_is_told_what_to_run_instead(monkeypatch):
    monkeypatch.delattr(os, "killpg")
    done = CliRunner().invoke(cluster, ["scheduler"])
    assert done.exit_code == 2
    assert "which Windows lacks: run `dask scheduler`" in done.output

"""The commands of `daskglm cluster` as users call them."""

import json
import socket
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from daskglm.cli import main
from daskglm.launch import commands, ssh, tls
from daskglm.launch.processes import Processes

ROOT = Path(__file__).resolve().parents[2]


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


def test_a_scheduler_that_others_reach_without_encryption_is_told(monkeypatch, tmp_path):
    def stop(*arguments):
        raise click.UsageError("stopped here")

    monkeypatch.setattr(commands, "start_scheduler", stop)
    tls.make_certificates(tmp_path / "tls")
    for command in ("scheduler", "local"):
        for host, more, told in (
            ("0.0.0.0", [], True),
            ("127.0.0.1", [], False),
            ("localhost", [], False),
            ("0.0.0.0", ["--tls-dir", str(tmp_path / "tls")], False),
        ):
            output = CliRunner().invoke(main, ["cluster", command, "--host", host, *more]).output
            lines = [
                line
                for line in output.splitlines()
                if line.startswith("warning: the scheduler listens on")
            ]
            assert len(lines) == told, output
            assert all("run code as this user" in line and "--tls-dir" in line for line in lines)


def test_the_address_of_a_scheduler_over_ssh_has_brackets(tmp_path, monkeypatch):
    (tmp_path / "hosts").write_text("[::1]\n")
    started = []
    monkeypatch.setattr(
        ssh, "on_all", lambda commands, timeout, stdin=None: dict.fromkeys(commands, "/home\n")
    )
    monkeypatch.setattr(Processes, "start", lambda self, process: started.append(process.command))

    def stop(address, *_, **__):
        raise RuntimeError(f"stopped at {address}")

    monkeypatch.setattr(commands, "wait_until_ready", stop)
    result = CliRunner().invoke(main, ["cluster", "ssh", str(tmp_path / "hosts")])
    assert "stopped at tcp://[::1]:8786" in result.output
    assert "--host ::1 --port 8786" in started[0][-1]
    assert "tcp://[::1]:8786" in started[1][-1]

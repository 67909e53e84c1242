"""Nothing is opened by accident: empty hosts, misspelt networks, options in host files, keys that others may read."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from daskglm.cli import main
from daskglm.launch import addresses, commands, ssh, tls
from daskglm.launch.processes import Processes, scheduler_file

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
TCP = ["tcp://127.0.0.1:1"]


def refused(*arguments):
    result = CliRunner().invoke(main, ["cluster", *map(str, arguments)])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.replace("│", " ").split())


def module(path):
    spec = importlib.util.spec_from_file_location("recipe", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


# ---- hosts to listen on
@pytest.mark.parametrize(
    "command", [["scheduler"], ["local"], ["workers", *TCP]], ids=lambda command: command[0]
)
@pytest.mark.parametrize("host", ["", "  ", "\t", "[]"])
def test_an_empty_host_is_refused(command, host):
    text = refused(*command, "--host", host)
    assert "--host" in text
    assert "is empty, which would listen on all addresses" in text
    assert "127.0.0.1" in text


@pytest.mark.parametrize(
    "command", [["scheduler"], ["local"], ["workers", *TCP]], ids=lambda command: command[0]
)
@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("192.0.2.1", "is not an address of this machine: it has 127.0.0.1"),
        ("2001:db8::1", "is not an address of this machine"),
        ("tcp://127.0.0.1", "is not the name or address of a machine"),
        ("127.0.0.1:8786 --preload evil", "is not the name or address of a machine"),
        ("-x", "is not the name or address of a machine"),
        ("no-such-host.invalid", "is not known here"),
    ],
)
def test_hosts_that_are_none_or_of_other_machines_are_refused(command, host, message):
    assert message in refused(*command, "--host", host)


@pytest.mark.parametrize(
    "dashboard", [":8787", "8787", "  :8787", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "[]:1"]
)
@pytest.mark.parametrize("command", ["scheduler", "local"])
def test_a_dashboard_wants_a_host(command, dashboard):
    assert "is not HOST:PORT" in refused(command, "--dashboard", dashboard)


def test_the_host_of_the_scheduler_over_ssh(tmp_path):
    (tmp_path / "hosts").write_text("node1\n")
    for host in ("", " ", "-oProxyCommand=x", "a b"):
        assert "--scheduler-host" in refused("ssh", tmp_path / "hosts", "--scheduler-host", host)


def test_own_hosts_are_taken():
    assert addresses.listening_host("127.0.0.1") == "127.0.0.1"
    assert addresses.listening_host("localhost") == "localhost"
    assert addresses.listening_host("0.0.0.0") == "0.0.0.0"
    assert "127.0.0.1" in addresses.own_addresses()
    assert addresses.interface_address("lo") == "127.0.0.1"
    assert addresses.dashboard_address("127.0.0.1:8787") == "127.0.0.1:8787"
    if socket.has_ipv6 and "::1" in addresses.own_addresses():
        assert addresses.listening_host("[::1]") == "::1"
        assert addresses.dashboard_address("[::1]:8787") == "[::1]:8787"
    for name in ("", "no-such-network"):
        with pytest.raises(ValueError, match="is none of this machine's: it has .*lo"):
            addresses.interface_address(name)


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


def test_a_scheduler_file_does_not_replace_a_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with (
            pytest.raises(ValueError, match="is a folder or a device, not a file"),
            scheduler_file(path),
        ):
            pass
    assert (tmp_path / "pipe").is_fifo()


# ---- hosts of ssh
@pytest.mark.parametrize(
    "line",
    [
        "-Fevil@h",
        "-oProxyCommand=evil",
        "me@-h",
        ".x@h",
        "@h",
        "me@",
        "a@b@c d",
        "-E/tmp/x@h",
        "[node1]",
        "[::1",
        "::g",
        "h;id",
        "$(id)",
        "me@h\x1b[2J",
        "fe80::1%-x",
    ],
)
def test_a_line_that_ssh_could_take_for_an_option_is_refused(line, tmp_path):
    (tmp_path / "hosts").write_text(f"node1\n{line}\n")
    with pytest.raises(ValueError) as caught:
        ssh.read_hosts(tmp_path / "hosts")
    assert f"{tmp_path / 'hosts'}, line 2: {line!r} is not a host" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_hosts_that_ssh_knows_are_taken(tmp_path):
    hosts = [
        "node1",
        "_h",
        "me@node-2.example",
        "_me@10.0.0.1",
        "[::1]",
        "::1",
        "me@[fe80::1%eth0]",
        "9lives",
    ]
    (tmp_path / "hosts").write_text("\n".join(hosts))
    assert ssh.read_hosts(tmp_path / "hosts") == hosts
    (tmp_path / "hosts").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="hosts is not a list of hosts: it is not UTF-8"):
        ssh.read_hosts(tmp_path / "hosts")


@pytest.mark.parametrize(
    ("host", "target", "name"),
    [
        ("me@[::1]", "me@::1", "::1"),
        ("[::1]", "::1", "::1"),
        ("me@node2", "me@node2", "node2"),
        ("n", "n", "n"),
    ],
)
def test_options_end_before_the_host(host, target, name):
    remote = ssh.Remote(host, ("-p22",), "/x", "python3")
    command = remote.command("pwd", terminal=True)
    assert command[-4:] == ["-p22", "--", target, "pwd"]
    assert remote.name == name


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh here")
def test_ssh_itself_takes_what_follows_for_a_host(tmp_path):
    (tmp_path / "evil@h").write_text('Match exec "touch ran"\n')
    command = ssh.Remote("-Fevil@h", ("-G", "-F", "/dev/null"), "/x", "python3").command("pwd")
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert not (tmp_path / "ran").exists()
    command = ssh.Remote("me@[::1]", ("-G", "-F", "/dev/null"), "/x", "python3").command("pwd")
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    assert "hostname ::1" in said
    assert "user me" in said


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


# ---- batch systems
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


# ---- keys
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o602, 0o644])
@pytest.mark.parametrize("link", [False, True])
def test_a_key_that_others_may_read_or_write_is_refused(mode, link, tmp_path):
    key = tls.make_certificates(tmp_path / "tls")["key"]
    if link:
        key = key.rename(tmp_path / "elsewhere")
        (tmp_path / "tls" / "key.pem").symlink_to(key)
        tls.check_folder(tmp_path / "tls")
    key.chmod(mode)
    with pytest.raises(PermissionError, match=f"mode {mode:o}.*chmod 600") as caught:
        tls.check_folder(tmp_path / "tls")
    assert ("leads to" in str(caught.value)) == link


def test_certificates_may_be_read_by_others_but_not_written(tmp_path):
    made = tls.make_certificates(tmp_path / "tls")
    made["cert"].chmod(0o644)
    made["ca-file"].chmod(0o644)
    tls.check_folder(tmp_path / "tls")
    made["ca-file"].chmod(0o664)
    with pytest.raises(PermissionError, match=r"ca\.pem can be written to by its group"):
        tls.check_folder(tmp_path / "tls")


def test_a_secret_of_kubernetes_is_given_by_the_group(tmp_path, monkeypatch):
    """There the files are root's, and the user of a pod reads them by its group."""
    made = tls.make_certificates(tmp_path / "tls")
    made["key"].chmod(0o440)
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of root's")
    with pytest.raises(PermissionError):
        tls.check_folder(tmp_path / "tls")
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    tls.check_folder(tmp_path / "tls")
    made["key"].chmod(0o460)
    with pytest.raises(PermissionError, match="written to by its group"):
        tls.check_folder(tmp_path / "tls")

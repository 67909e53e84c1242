"""Files of hosts, and commands for ssh: nothing in a file can become an option of ssh."""

import shutil
import subprocess

import pytest

from daskglm.launch import ssh


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

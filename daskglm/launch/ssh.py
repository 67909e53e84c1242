"""Commands on other hosts over ssh.

The user's own ssh is called, so its configuration (keys, aliases, jump hosts) applies. Commands
that run as long as the cluster get a terminal: their host sends them SIGHUP when the launcher ends
or the link is cut, and nothing stays behind.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from daskglm.launch import addresses

# Exit code of ssh when the link is lost.
LINK_LOST = 255

# Folder for certificates on each host, in the user's home.
CERTIFICATES = ".daskglm-tls"

# Most hosts that are asked at the same time.
PARALLEL_HOSTS = 32


@dataclass(frozen=True)
class Remote:
    """A host: its name and options for ssh, and daskglm's folder and Python on it."""

    host: str
    options: tuple[str, ...]
    folder: str
    python: str

    @property
    def name(self) -> str:
        """Host without the user and without brackets."""
        return self.host.rpartition("@")[2].strip("[]")

    @property
    def target(self) -> str:
        """User and host as ssh takes them: an IPv6 address has no brackets."""
        return "".join([*self.host.rpartition("@")[:2], self.name])

    def command(self, line: str, *, terminal: bool = False) -> list[str]:
        """Return the command that runs a line of shell on the host."""
        settings = ("BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=6")
        fixed = [part for setting in settings for part in ("-o", setting)]
        # -- ends the options, whatever the host is called
        return [
            "ssh",
            *(["-tt"] if terminal else []),
            *fixed,
            *self.options,
            "--",
            self.target,
            line,
        ]

    def daskglm(self, arguments: Sequence[str], *, terminal: bool = False) -> list[str]:
        """Return the command that runs `daskglm` on the host."""
        line = shlex.join([self.python, "-m", "daskglm", *arguments])
        return self.command(f"cd {shlex.quote(self.folder)} && exec {line}", terminal=terminal)


def read_hosts(path: Path) -> list[str]:
    """Read the hosts of a file: one a line, as ssh takes them; # begins a comment.

    Raises
    ------
    ValueError
        If the file has no hosts, a line is not a host, or a host is named twice.
    """
    hosts: list[str] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not a list of hosts: it is not UTF-8 ({error.reason})"
        ) from error
    for number, line in enumerate(lines, 1):
        host = line.partition("#")[0].strip()
        if not host:
            continue
        if not _is_user_at_host(host):
            raise ValueError(
                f"{path}, line {number}: {host!r} is not a host: give one a line, such as node1, "
                "me@node1 or [::1], that begins with a letter, a digit or an underscore"
            )
        if host in hosts:
            raise ValueError(f"{path}, line {number}: {host!r} is named twice")
        hosts.append(host)
    if not hosts:
        raise ValueError(f"{path} names no hosts")
    return hosts


def _is_user_at_host(text: str) -> bool:
    user, at, host = text.rpartition("@")
    return addresses.is_host(host) and (not at or addresses.NAME.fullmatch(user) is not None)


def on_all(
    commands: dict[str, list[str]], timeout: float, stdin: bytes | None = None
) -> dict[str, str]:
    """Run one command per host at the same time, and return the output of each.

    Parameters
    ----------
    commands : dict of str to list of str
        Command for each host.
    timeout : float
        Seconds for each command.
    stdin : bytes, optional
        Standard input of every command.

    Raises
    ------
    RuntimeError
        For the first host whose command failed or took too long, with its error output.
    """

    def run(host: str) -> str:
        try:
            done = subprocess.run(
                commands[host], input=stdin, capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{host} did not answer within {timeout:.0f} s") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-2000:]
            raise RuntimeError(f"{host}: {said or f'exit code {done.returncode}'}")
        return done.stdout.decode(errors="replace")

    with ThreadPoolExecutor(min(len(commands), PARALLEL_HOSTS)) as pool:
        return dict(zip(commands, pool.map(run, commands), strict=True))


def count_workers(remotes: Sequence[Remote], size: Sequence[str], timeout: float) -> int:
    """Return how many workers the hosts will run together, by asking each for its plan."""
    ask = ["cluster", "workers", "--plan", *size]
    plans = on_all({remote.host: remote.daskglm(ask) for remote in remotes}, timeout)
    return sum(len(plan.splitlines()) for plan in plans.values())


def copy_certificates(remotes: Sequence[Remote], folder: Path, timeout: float) -> dict[str, str]:
    """Copy a folder of certificates to every host, readable by the user only.

    Returns
    -------
    dict of str to str
        Path of the folder on each host.
    """
    packed = subprocess.run(
        ["tar", "-C", str(folder), "-chf", "-", "ca.pem", "cert.pem", "key.pem"],
        capture_output=True,
        check=True,
    ).stdout
    # -o: the files belong to the user there, not to the user here
    unpack = f"umask 077 && mkdir -p {CERTIFICATES} && tar -C {CERTIFICATES} -xof -"
    line = f"{unpack} && cd {CERTIFICATES} && pwd"
    paths = on_all({remote.host: remote.command(line) for remote in remotes}, timeout, packed)
    return {host: path.strip() for host, path in paths.items()}


def install(remotes: Sequence[Remote], tree: Path, timeout: float) -> None:
    """Copy the commit of a checkout to the folder on every host, and make its environment there."""
    packed = subprocess.run(
        ["git", "-C", str(tree), "archive", "HEAD"], capture_output=True, check=True
    ).stdout
    lines = {}
    for remote in remotes:
        folder = shlex.quote(remote.folder)
        unpack = f"mkdir -p {folder} && tar -C {folder} -xf -"
        lines[remote.host] = remote.command(f"{unpack} && make -s -C {folder} setup")
    on_all(lines, timeout, packed)

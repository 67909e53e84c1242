"""A cluster over ssh: a scheduler on one host, workers on all, each started by a command that ends
with its link.

Hosts are reached as the user's own ssh reaches them (keys, aliases and jumps of its configuration
hold). ssh gives the remote command a terminal, so that it is told (SIGHUP) when the launcher ends
or is cut off.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import shlex
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# of a user or a host: nothing that ssh takes for an option
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
LOST = 255  # exit code of ssh when the link is gone
CERTIFICATES = ".daskglm-tls"  # folder on each host, under the home of the user


@dataclass(frozen=True)
class Remote:
    """How to reach a host and what to run there: its name for ssh, options of ssh, folder and
    Python on the host.
    """

    host: str
    options: tuple[str, ...]
    folder: str
    python: str

    @property
    def name(self) -> str:
        """The host without the user."""
        return self.host.rpartition("@")[2].strip("[]")

    @property
    def target(self) -> str:
        """User and host as ssh takes them: IPv6 addresses without brackets."""
        return "".join([*self.host.rpartition("@")[:2], self.name])

    def command(self, line: str, *, terminal: bool = False) -> list[str]:
        """Run a line of shell there."""
        extra = ["-tt"] if terminal else []
        alive = [
            "-o",
            "BatchMode=yes",
            "-o",
            "ServerAliveInterval=5",
            "-o",
            "ServerAliveCountMax=6",
        ]
        # what follows -- is no option, whatever a host is called
        return ["ssh", *extra, *alive, *self.options, "--", self.target, line]

    def daskglm(self, arguments: Sequence[str], *, terminal: bool = False) -> list[str]:
        """Run `daskglm` there."""
        line = shlex.join([self.python, "-m", "daskglm", *arguments])
        return self.command(f"cd {shlex.quote(self.folder)} && exec {line}", terminal=terminal)


def is_host(text: str) -> bool:
    """Whether a text is the name or the address of a host; an IPv6 address may have brackets and a
    zone.
    """
    address, percent, zone = text.removeprefix("[").removesuffix("]").partition("%")
    if text.startswith("[") != text.endswith("]") or (percent and not NAME.fullmatch(zone)):
        return False
    with contextlib.suppress(ValueError):
        return bool(ipaddress.IPv6Address(address))
    return NAME.fullmatch(text) is not None


def _is_user_at_host(text: str) -> bool:
    user, at, host = text.rpartition("@")
    return is_host(host) and (not at or NAME.fullmatch(user) is not None)


def read_hosts(path: Path) -> list[str]:
    """Hosts of a file: one a line, as ssh takes them; # begins a comment.

    Raises
    ------
    ValueError
        For a file without hosts, a line that is no host, and a host named twice.
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
                "me@node1 or [::1], "
                "that begins with a letter, a digit or an underscore"
            )
        if host in hosts:
            raise ValueError(f"{path}, line {number}: {host!r} is named twice")
        hosts.append(host)
    if not hosts:
        raise ValueError(f"{path} names no hosts")
    return hosts


def on_all(
    commands: dict[str, list[str]], timeout: float, given: bytes | None = None
) -> dict[str, str]:
    """Run a command for each host at once, and return what each wrote.

    Raises
    ------
    RuntimeError
        For the first host whose command failed, with what it said.
    """

    def run(host: str) -> str:
        try:
            done = subprocess.run(
                commands[host], input=given, capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{host} did not answer within {timeout:.0f} s") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-2000:]
            raise RuntimeError(f"{host}: {said or f'exit code {done.returncode}'}")
        return done.stdout.decode(errors="replace")

    with ThreadPoolExecutor(min(len(commands), 32)) as pool:
        return dict(zip(commands, pool.map(run, commands), strict=True))


def copy_certificates(remotes: Sequence[Remote], folder: Path, timeout: float) -> None:
    """Put a folder of certificates on every host, for the user only."""
    packed = subprocess.run(
        ["tar", "-C", str(folder), "-chf", "-", "ca.pem", "cert.pem", "key.pem"],
        capture_output=True,
        check=True,
    ).stdout
    # -o: the files are the user's there
    line = f"umask 077 && mkdir -p {CERTIFICATES} && tar -C {CERTIFICATES} -xof -"
    on_all({remote.host: remote.command(line) for remote in remotes}, timeout, packed)


def install(remotes: Sequence[Remote], tree: Path, timeout: float) -> None:
    """Copy the committed files of a checkout to the folder on every host, and make its environment
    there.
    """
    packed = subprocess.run(
        ["git", "-C", str(tree), "archive", "HEAD"], capture_output=True, check=True
    ).stdout
    lines = {
        remote.host: remote.command(
            f"mkdir -p {shlex.quote(remote.folder)} && tar -C {shlex.quote(remote.folder)} -xf - "
            "&& "
            f"make -s -C {shlex.quote(remote.folder)} setup"
        )
        for remote in remotes
    }
    on_all(lines, timeout, packed)

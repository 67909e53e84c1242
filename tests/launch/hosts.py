"""Several hosts on one machine: network namespaces on a bridge, each with an sshd, and SLURM's daemons on demand."""

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

BRIDGE, NET, HERE = "dgbr0", "10.78.0", "10.78.0.254"
HOSTS = {"dgw1": 11, "dgw2": 12}


def sh(*command, check=True, **options):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, **options
    )
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done


def refusal():
    """Why there can be no hosts here; empty where there can."""
    if os.geteuid():
        return "needs root, for network namespaces"
    missing = [
        tool for tool in ("ip", "sshd", "ssh", "ssh-keygen", "nsenter") if not shutil.which(tool)
    ]
    if missing:
        return f"needs {', '.join(missing)}: run deploy/tests/setup.sh"
    return ""


class Hosts:
    """The hosts while the context lasts. `folder` is for keys, configurations and logs.

    Their names and addresses are those of the machine, so one process at a time has them: others wait.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.daemons = []
        self.lock = None

    def __enter__(self):
        self.lock = open(Path(tempfile.gettempdir()) / "daskglm-hosts.lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self._down()
        try:
            self._up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
            daemon.kill()
        for name in HOSTS:  # what a test has left running there
            for pid in sh("ip", "netns", "pids", name, check=False).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
        self._down()
        self.lock.close()

    # ---- network
    def address(self, name):
        return f"{NET}.{HOSTS[name]}"

    def cut(self, name):
        """Take the cable of a host out."""
        sh("ip", "link", "set", f"v{name}", "down")

    def mend(self, name):
        sh("ip", "link", "set", f"v{name}", "up")

    def within(self, name, *command):
        """A command as it is run on a host."""
        return ["nsenter", f"--net=/run/netns/{name}", *map(str, command)]

    def _up(self):
        sh("ip", "link", "add", BRIDGE, "type", "bridge")
        sh("ip", "addr", "add", f"{HERE}/24", "dev", BRIDGE)
        sh("ip", "link", "set", BRIDGE, "up")
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "id")
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "hostkey")
        shutil.copy(self.folder / "id.pub", self.folder / "authorized_keys")
        for name in HOSTS:
            sh("ip", "netns", "add", name)
            sh(
                "ip",
                "link",
                "add",
                f"v{name}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            sh("ip", "link", "set", f"v{name}", "master", BRIDGE, "up")
            sh("ip", "-n", name, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                sh("ip", "-n", name, "link", "set", device, "up")
            sh("ip", "-n", name, "route", "add", "default", "via", HERE)
            self._sshd(name)

    def _down(self):
        for name in HOSTS:
            sh("ip", "netns", "del", name, check=False)
            sh("ip", "link", "del", f"v{name}", check=False)
        sh("ip", "link", "del", BRIDGE, check=False)

    def _sshd(self, name):
        config = self.folder / f"sshd_{name}"
        config.write_text(
            f"ListenAddress {self.address(name)}\nHostKey {self.folder}/hostkey\nPidFile none\nStrictModes no\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nPermitRootLogin prohibit-password\n"
            "PasswordAuthentication no\nUsePAM no\nUseDNS no\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        self.daemon(self.within(name, shutil.which("sshd"), "-D", "-f", config), f"sshd_{name}.log")
        self.wait_for(lambda: _listens(self.address(name), 22), f"sshd of {name}")

    @property
    def ssh_options(self):
        """For `deploy/ssh`: our key, and host keys that nobody knows."""
        options = (
            f"-i{self.folder}/id",
            "-oStrictHostKeyChecking=no",
            "-oUserKnownHostsFile=/dev/null",
            "-oLogLevel=ERROR",
        )
        return [part for option in options for part in ("--ssh-option", option)]

    # ---- daemons
    def daemon(self, command, log, **options):
        with open(self.folder / log, "w") as out:
            self.daemons.append(
                subprocess.Popen(list(map(str, command)), stdout=out, stderr=out, **options)
            )
        return self.daemons[-1]

    def wait_for(self, true, what, seconds=20):
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"{p.name}: {p.read_text()[-1500:]}" for p in self.folder.glob("*.log")
                )
                raise RuntimeError(f"{what} did not come up in {seconds} s\n{logs}")
            time.sleep(0.1)

    def slurm(self):
        """Start a controller here and a slurmd on every host; returns the environment for its commands."""
        state = self.folder / "slurm"
        for part in ("state", "spool"):
            (state / part).mkdir(parents=True)
        config = state / "slurm.conf"
        nodes = "\n".join(
            f"NodeName={name} NodeAddr={self.address(name)} CPUs=2 RealMemory=4000 State=UNKNOWN"
            for name in HOSTS
        )
        config.write_text(
            f"ClusterName=t\nSlurmctldHost={socket.gethostname()}({HERE})\nSlurmUser=root\nSlurmdUser=root\n"
            "AuthType=auth/munge\nMpiDefault=none\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
            "ReturnToService=2\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"
            f"StateSaveLocation={state}/state\nSlurmdSpoolDir={state}/spool/%n\nSlurmctldPidFile={state}/ctld.pid\n"
            f"SlurmdPidFile={state}/slurmd.%n.pid\nSlurmctldPort=16817\nSlurmdPort=16818\n"
            "AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n"
            f"SlurmdParameters=config_overrides\n{nodes}\n"
            "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        )
        environment = {**os.environ, "SLURM_CONF": str(config)}
        Path("/run/munge").mkdir(exist_ok=True)
        sh("chown", "munge:", "/run/munge")
        self.daemon(
            ["runuser", "-u", "munge", "--", "munged", "--foreground", "--force"], "munged.log"
        )
        self.wait_for(lambda: sh("munge", "-n", check=False).returncode == 0, "munge")
        self.daemon(["slurmctld", "-D"], "slurmctld.log", env=environment)
        for name in HOSTS:
            (state / "spool" / name).mkdir()
            run = f"hostname {name}; exec slurmd -D -N {name}"
            self.daemon(
                self.within(name, "unshare", "--uts", "sh", "-c", run),
                f"slurmd_{name}.log",
                env=environment,
            )
        idle = ["sinfo", "-h", "-o", "%T"]
        self.wait_for(
            lambda: sh(*idle, check=False, env=environment).stdout.split() == ["idle"], "SLURM", 40
        )
        return environment


def _listens(address, port):
    with contextlib.suppress(OSError), socket.create_connection((address, port), 0.5):
        return True
    return False

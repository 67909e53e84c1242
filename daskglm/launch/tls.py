"""Encryption of a cluster's links: what Dask is told, and certificates for tests and small
clusters.

A folder holds ca.pem, cert.pem and key.pem. Every process of a cluster shows cert.pem and believes
only partners whose certificate the authority of ca.pem has signed; so who has no certificate can
neither run code nor read data. Dask does not compare host names: one certificate serves all
machines, and is to be kept as a password is.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FILES = {"ca-file": "ca.pem", "cert": "cert.pem", "key": "key.pem"}
DAYS = 365


def options(folder: Path | None) -> list[str]:
    """Arguments of Dask's commands for a folder of certificates; none without one.

    Raises
    ------
    FileNotFoundError
        Where the folder lacks a file.
    PermissionError
        Where others may read the key, or write to any of the files; of a link, its target counts.
    """
    if folder is None:
        return []
    found = {name: folder / file for name, file in FILES.items()}
    missing = [path.name for path in found.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(missing)}: make them with `daskglm cluster certificates`"
        )
    for name, path in found.items():
        _check_mode(path, secret=name == "key")
    return [
        part for name, path in found.items() for part in (f"--tls-{name}", str(path.absolute()))
    ]


def _check_mode(path: Path, *, secret: bool) -> None:
    """Raise PermissionError where a file, or what a link leads to, is open to more than its
    owner.
    """
    about = path.stat()
    allowed = (
        stat.S_IRWXU
        if secret
        else stat.S_IRWXU | stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH
    )
    if about.st_uid == 0 and os.geteuid() != 0:
        # a Kubernetes secret is root's, and given to a pod's user by its group
        allowed |= stat.S_IRGRP
    if open_to := stat.S_IMODE(about.st_mode) & 0o777 & ~allowed:
        what = "written to" if open_to & (stat.S_IWGRP | stat.S_IWOTH) else "read"
        which = f"{path} leads to {path.resolve()}, which" if path.is_symlink() else f"{path}"
        whom = "everybody on this machine" if open_to & stat.S_IRWXO else "its group"
        raise PermissionError(
            f"{which} can be {what} by {whom} (mode {about.st_mode & 0o777:o}): chmod 600 it"
        )


def settings(folder: Path | None) -> dict[str, Any]:
    """The same as Dask's configuration, which also refuses every link that is not encrypted."""
    if folder is None:
        return {}
    options(folder)
    ca, cert, key = (str((folder / file).absolute()) for file in FILES.values())
    own = {"cert": cert, "key": key}
    return {
        "distributed.comm.require-encryption": True,
        "distributed.comm.tls.ca-file": ca,
        **{
            f"distributed.comm.tls.{role}.{name}": path
            for role in ("scheduler", "worker", "client")
            for name, path in own.items()
        },
    }


def environment(folder: Path | None) -> dict[str, str]:
    """The same as environment variables, for processes that read Dask's configuration."""
    return {_variable(name): str(value) for name, value in settings(folder).items()}


def _variable(name: str) -> str:
    return "DASK_" + name.upper().replace(".", "__").replace("-", "_")


def make_certificates(
    folder: Path, names: Sequence[str] = (), days: int = DAYS
) -> Mapping[str, Path]:
    """Make an authority and one certificate that all processes of a cluster share; the authority's
    key is not kept.

    Parameters
    ----------
    folder : path
        Is made, for the user only; files in it are not overwritten.
    names : sequence of str
        Hosts or IP addresses to name in the certificate besides localhost. Dask does not look at
        them.
    days : int
        For which it holds.

    Raises
    ------
    FileExistsError
        Where one of the files exists.
    ModuleNotFoundError
        Without the `cryptography` library (extra "deploy").
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "certificates need the library: pip install 'daskglm[deploy]'"
        ) from error
    for file in FILES.values():
        if (folder / file).exists():
            raise FileExistsError(
                f"{folder / file} exists already; remove it, or give another folder"
            )

    def signed(name: str, issuer: str, key: Any, by: Any, authority: bool) -> Any:
        now = datetime.datetime.now(datetime.UTC)
        subject, issued = (
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in (name, issuer)
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issued)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(
                x509.BasicConstraints(ca=authority, path_length=0 if authority else None),
                critical=True,
            )
            .add_extension(
                x509.SubjectAlternativeName([_name(x509, n) for n in ("localhost", *names)]),
                critical=False,
            )
        )
        return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    ca = "daskglm cluster authority"
    contents = {
        "ca-file": signed(ca, ca, authority, authority, True),
        "cert": signed("daskglm cluster", ca, key, authority, False),
        "key": private,
    }
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in contents.items():
        with open(
            os.open(folder / FILES[name], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as out:
            out.write(content)
    return {name: folder / file for name, file in FILES.items()}


def _name(x509: Any, name: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

"""Encryption of a cluster's links: Dask's settings, and certificates for tests and small clusters.

A folder holds ca.pem, cert.pem and key.pem. Every process of a cluster shows cert.pem, and accepts
only partners whose certificate was signed by the authority in ca.pem. Without a certificate nobody
can run code or read data. Dask does not compare host names, so one certificate serves all machines;
keep it as you keep a password.
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

# Days for which a new certificate is valid.
DAYS = 365


def check_folder(folder: Path) -> None:
    """Check a folder of certificates before a process uses it.

    Raises
    ------
    FileNotFoundError
        If one of the three files is missing.
    PermissionError
        If others may read the key or write to one of the files. Links count as their targets.
    """
    found = {name: folder / file for name, file in FILES.items()}
    missing = [path.name for path in found.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(missing)}: make them with `daskglm cluster certificates`"
        )
    for name, path in found.items():
        _check_mode(path, secret=name == "key")


def _check_mode(path: Path, *, secret: bool) -> None:
    """Raise PermissionError if others may write to a file, or read it although it is secret."""
    about = path.stat()
    allowed = stat.S_IRWXU
    if not secret:
        allowed |= stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH
    if about.st_uid == 0 and os.geteuid() != 0:
        # a secret of Kubernetes belongs to root, and a pod's user reads it as a member of its group
        allowed |= stat.S_IRGRP

    if excess := stat.S_IMODE(about.st_mode) & 0o777 & ~allowed:
        what = "written to" if excess & (stat.S_IWGRP | stat.S_IWOTH) else "read"
        which = f"{path} leads to {path.resolve()}, which" if path.is_symlink() else f"{path}"
        whom = "everybody on this machine" if excess & stat.S_IRWXO else "its group"
        raise PermissionError(
            f"{which} can be {what} by {whom} (mode {about.st_mode & 0o777:o}): chmod 600 it"
        )


def settings(folder: Path | None) -> dict[str, Any]:
    """Return Dask's configuration for a folder of certificates; empty without one.

    The configuration also refuses links that are not encrypted. Raises what `check_folder` raises.
    """
    if folder is None:
        return {}
    check_folder(folder)
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
    """Return `settings` as environment variables, for processes that read Dask's configuration."""
    return {_variable(name): str(value) for name, value in settings(folder).items()}


def _variable(name: str) -> str:
    return "DASK_" + name.upper().replace(".", "__").replace("-", "_")


def make_certificates(
    folder: Path, names: Sequence[str] = (), days: int = DAYS
) -> Mapping[str, Path]:
    """Make an authority, and one certificate for all processes of a cluster.

    The authority's key is not kept, so nobody can sign another certificate with it.

    Parameters
    ----------
    folder : path
        Made if missing, for the user only. Files in it are not overwritten.
    names : sequence of str
        Hosts or IP addresses to name in the certificate besides localhost. Dask ignores them.
    days : int
        Days for which the certificate is valid.

    Raises
    ------
    FileExistsError
        If one of the files exists.
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

    issuer = "daskglm cluster authority"

    def signed(name: str, key: Any, *, authority: bool) -> bytes:
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
        certificate = builder.sign(authority_key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)

    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    contents = {
        "ca-file": signed(issuer, authority_key, authority=True),
        "cert": signed("daskglm cluster", key, authority=False),
        "key": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    }
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in contents.items():
        # readable by the user only from the moment the file exists
        new = os.open(folder / FILES[name], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(new, "wb") as out:
            out.write(content)
    return {name: folder / file for name, file in FILES.items()}


def _name(x509: Any, name: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

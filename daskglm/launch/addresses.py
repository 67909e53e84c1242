"""Addresses to listen on and names of hosts, checked before Dask or ssh could misread them.

Dask listens on all addresses when its host is empty, and ssh takes a host that begins with a dash
for an option.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Sequence

import psutil

# Name of a host or a user that ssh cannot take for an option: it does not begin with a dash.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")

# The commands add protocol, brackets and port, so a host to listen on has none of these.
_NOT_IN_A_HOST = frozenset("/[]@,;'\"\\`$&|<>()*?!#={}")


def listening_host(host: str) -> str:
    """Return a host to listen on, without the brackets that an IPv6 address may have.

    Parameters
    ----------
    host : str
        Name or address of this machine; "0.0.0.0" or "::" for all its addresses.

    Raises
    ------
    ValueError
        If the host is blank (Dask would listen on all addresses), is not a name or an address, or
        is the address of another machine.
    """
    bare = _unbracketed(host)
    if not bare.strip():
        raise ValueError(
            f"host {host!r} is empty, which would listen on all addresses: give one of "
            f"{_listed(own_addresses())}, or 0.0.0.0 if all are meant"
        )
    if (
        not bare.isprintable()
        or any(c.isspace() or c in _NOT_IN_A_HOST for c in bare)
        or bare.startswith("-")
    ):
        raise ValueError(f"host {host!r} is not the name or address of a machine, such as 10.0.0.1")
    if not any(_can_bind(address) for address in _resolved(bare)):
        raise ValueError(
            f"host {host!r} is not an address of this machine: it has {_listed(own_addresses())}"
        )
    return bare


def interface_address(name: str) -> str:
    """Return the first IPv4 address of a network interface, or else its first IPv6 address.

    Raises
    ------
    ValueError
        If this machine has no such interface, or the interface has no address.
    """
    interfaces = psutil.net_if_addrs()
    if name not in interfaces:
        raise ValueError(
            f"interface {name!r} is none of this machine's: it has {_listed(sorted(interfaces))}"
        )

    for family in (socket.AF_INET, socket.AF_INET6):
        for found in interfaces[name]:
            if found.family == family:
                return found.address
    raise ValueError(f"interface {name!r} has no address: is the network up?")


def own_addresses() -> list[str]:
    """Return the addresses of this machine's interfaces, without IPv6 zones."""
    families = (socket.AF_INET, socket.AF_INET6)
    found = (
        each.address
        for interface in psutil.net_if_addrs().values()
        for each in interface
        if each.family in families
    )
    return sorted({address.partition("%")[0] for address in found})


def is_host(text: str) -> bool:
    """Return True for the name or the address of a host. IPv6: brackets and a zone are allowed."""
    address, percent, zone = text.removeprefix("[").removesuffix("]").partition("%")
    if text.startswith("[") != text.endswith("]") or (percent and not NAME.fullmatch(zone)):
        return False
    with contextlib.suppress(ValueError):
        return bool(ipaddress.IPv6Address(address))
    return NAME.fullmatch(text) is not None


def bracketed(host: str) -> str:
    """Return a host as it is written in a URL: an IPv6 address gets brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach what listens on a host.

    Raises
    ------
    ValueError
        If the name of the host is not known here.
    """
    return all(
        ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_loopback
        for each in _resolved(_unbracketed(host))
    )


def open_cluster_warning(host: str, *, encrypted: bool) -> str | None:
    """Return a warning if other machines can reach the scheduler without a certificate."""
    if encrypted or is_loopback(host):
        return None
    return (
        f"warning: the scheduler listens on {_unbracketed(host)} without encryption: whoever "
        "reaches it can run code as this user. Beyond a trusted network give --tls-dir"
    )


def dashboard_address(dashboard: str) -> str:
    """Return HOST:PORT of a dashboard.

    Raises
    ------
    ValueError
        If the host is missing (Dask would listen on all addresses) or not one of this machine, or
        if the port is not a number up to 65535.
    """
    host, colon, port = dashboard.rpartition(":")
    if (
        not colon
        or not _unbracketed(host).strip()
        or not port.isascii()
        or not port.isdigit()
        or int(port) > 65535
    ):
        raise ValueError(f"{dashboard!r} is not HOST:PORT, such as 127.0.0.1:8787")
    bare = listening_host(host)
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def _unbracketed(host: str) -> str:
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _resolved(host: str) -> Sequence[tuple]:
    """Resolve a host to the socket addresses that a server on it would listen on."""
    try:
        return socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"host {host!r} is not known here ({error}): give one of {_listed(own_addresses())}"
        ) from error


def _can_bind(found: tuple) -> bool:
    """Return True if a socket can be bound there: only this machine's addresses allow it."""
    family, kind, protocol, _, address = found
    try:
        with socket.socket(family, kind, protocol) as server:
            server.bind(address)
    except OSError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

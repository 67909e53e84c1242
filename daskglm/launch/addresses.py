"""Addresses to listen on: refused where Dask would take them for all addresses, or where they are
another machine's.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import psutil

# Dask's protocols, brackets and ports are added by the commands, so that a host is a name or a
# number only
_NOT_IN_A_HOST = frozenset("/[]@,;'\"\\`$&|<>()*?!#={}")


def listening_host(host: str) -> str:
    """A host to listen on, without the brackets that an IPv6 address may have.

    Parameters
    ----------
    host : str
        Name or address of this machine; "0.0.0.0" or "::" for all of its addresses, which has to be
        said.

    Raises
    ------
    ValueError
        For an empty or blank host, which Dask takes for all addresses, for what is no host, and for
        an address that no network of this machine has.
    """
    bare = _unbracketed(host)
    if not bare.strip():
        raise ValueError(
            f"host {host!r} is empty, which would listen on all addresses: give one of "
            f"{_shown(own_addresses())}, or "
            "0.0.0.0 if all are meant"
        )
    if (
        not bare.isprintable()
        or any(c.isspace() or c in _NOT_IN_A_HOST for c in bare)
        or bare.startswith("-")
    ):
        raise ValueError(f"host {host!r} is not the name or address of a machine, such as 10.0.0.1")
    if not any(_can_be_had(address) for address in _resolved(bare)):
        raise ValueError(
            f"host {host!r} is not an address of this machine: it has {_shown(own_addresses())}"
        )
    return bare


def network_address(name: str) -> str:
    """The first IPv4 address, or else IPv6 address, of a network interface of this machine.

    Raises
    ------
    ValueError
        For an empty name, one that this machine does not have, and one without an address.
    """
    networks = psutil.net_if_addrs()
    if name not in networks:
        raise ValueError(
            f"interface {name!r} is none of this machine's: it has {_shown(sorted(networks))}"
        )
    for family in (socket.AF_INET, socket.AF_INET6):
        for found in networks[name]:
            if found.family == family:
                return found.address
    raise ValueError(f"interface {name!r} has no address: is the network up?")


def own_addresses() -> list[str]:
    """Addresses of this machine's networks, without their zones."""
    kinds = (socket.AF_INET, socket.AF_INET6)
    found = (
        each.address
        for network in psutil.net_if_addrs().values()
        for each in network
        if each.family in kinds
    )
    return sorted({address.partition("%")[0] for address in found})


def only_here(host: str) -> bool:
    """Whether only this machine reaches what listens on a host; raises ValueError for a name that
    is not known.
    """
    return all(
        ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_loopback
        for each in _resolved(_unbracketed(host))
    )


def warning_of_an_open_cluster(host: str, *, encrypted: bool) -> str | None:
    """One line for whoever starts a scheduler that others can reach and run code on; None where
    nobody can.
    """
    if encrypted or only_here(host):
        return None
    return (
        f"warning: the scheduler listens on {_unbracketed(host)} without encryption: whoever "
        "reaches it can run code "
        "as this user. Beyond a trusted network give --tls-dir"
    )


def served_at(dashboard: str) -> str:
    """HOST:PORT of a dashboard; raises ValueError where the host is missing, which Dask takes for
    all addresses.
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
    """What the system makes of a host as an address to listen on."""
    try:
        return socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"host {host!r} is not known here ({error}): give one of {_shown(own_addresses())}"
        ) from error


def _can_be_had(found: tuple) -> bool:
    """Whether any free port there can be taken for a moment, which only this machine's addresses
    allow.
    """
    family, kind, protocol, _, address = found
    try:
        with socket.socket(family, kind, protocol) as taken:
            taken.bind(address)
    except OSError:
        return False
    return True


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

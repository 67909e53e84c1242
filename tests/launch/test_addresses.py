"""Addresses to listen on: empty hosts, misspelt names and other machines are refused."""

import socket

import pytest

from daskglm.launch import addresses
from tests.launch.test_options import refused

TCP = ["tcp://127.0.0.1:1"]


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
        ("192.0.2.1", "is not an address of this machine: it has "),
        ("2001:db8::1", "is not an address of this machine"),
        ("tcp://127.0.0.1", "is not the name or address of a machine"),
        ("127.0.0.1:8786 --preload evil", "is not the name or address of a machine"),
        ("-x", "is not the name or address of a machine"),
        ("no-such-host.invalid", "is not known here"),
    ],
)
def test_hosts_that_are_none_or_of_other_machines_are_refused(command, host, message):
    assert message in refused(*command, "--host", host)


def test_the_addresses_that_this_machine_has_are_listed():
    # Other tests' network namespaces may add addresses while this one runs.
    said = refused("scheduler", "--host", "192.0.2.1")
    listed = said.partition("it has ")[2].rstrip(".").split(", ")
    assert "127.0.0.1" in listed


@pytest.mark.parametrize(
    "dashboard", [":8787", "8787", "  :8787", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "[]:1"]
)
@pytest.mark.parametrize("command", ["scheduler", "local"])
def test_a_dashboard_wants_a_host(command, dashboard):
    assert "is not HOST:PORT" in refused(command, "--dashboard", dashboard)


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

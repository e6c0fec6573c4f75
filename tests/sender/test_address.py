"""Addresses that are refused, in every form in which they can be written or embedded."""

import pytest

from interlock.sender.http_transport import AddressGuard

REFUSED = [
    "169.254.169.254", "169.254.0.1", "169.254.170.2", "100.100.100.200", "168.63.129.16", "0.0.0.0", "224.0.0.1",
    "239.255.255.250", "::", "ff02::1", "fe80::1", "fe80::1%1", "febf::1", "fec0::1", "fd00:ec2::254", "fd00:ec2::23",
    "fd20:ce::254", "fd00:c1::a9fe:a9fe",
    "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254", "::ffff:0:169.254.169.254", "::ffff:0.0.0.0",
    "2002:a9fe:a9fe::", "2002:a9fe:a9fe::1", "64:ff9b::169.254.169.254", "64:ff9b::6464:64c8",
    "2001:0:a9fe:a9fe::1",  # the server of a Teredo address
    "2001:0:4136:e378:8000:63bf:5601:5601",  # its client, with every bit inverted
    "0xa9fea9fe", "2852039166", "169.254.43518", "0251.0376.0251.0376", "localhost", "", "300.1.1.1",  # not numeric
]  # fmt: skip
TAKEN = [
    "127.0.0.1", "127.8.8.8", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12:3456::1", "8.8.8.8",
    "2606:4700::1111", "::ffff:127.0.0.1", "2002:0a00:0001::1", "64:ff9b::8.8.8.8", "169.253.255.255", "169.255.0.0",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_refused(address: str) -> None:
    assert not AddressGuard([]).allows(address)


@pytest.mark.parametrize("address", TAKEN)
def test_loopback_private_and_public_addresses_are_allowed(address: str) -> None:
    assert AddressGuard([]).allows(address)


@pytest.mark.parametrize(
    ("allowed", "address", "allows"),
    [
        ("169.254.169.254", "169.254.169.254", True),
        ("169.254.169.254", "::ffff:169.254.169.254", True),
        ("169.254.169.254", "169.254.169.253", False),
        ("169.254.7.9/16", "169.254.0.1", True),
        ("fe80::/10", "fe80::1%1", True),
        ("64:ff9b::/96", "64:ff9b::169.254.169.254", True),
        ("169.254.1.1", "2001:0:a9fe:101::5601:5601", False),  # only the server of Teredo is allowed
        ("metadata.internal", "169.254.169.254", False),
    ],
)
def test_allowed_by_address_or_network(allowed: str, address: str, allows: bool) -> None:
    assert AddressGuard([allowed]).allows(address) is allows


@pytest.mark.parametrize("host", ["metadata.internal", "METADATA.Internal", "metadata.internal."])
def test_allowed_by_name(host: str) -> None:
    assert AddressGuard(["Metadata.internal"]).allows_name(host)
    assert not AddressGuard(["Metadata.internal"]).allows_name(f"x.{host}")

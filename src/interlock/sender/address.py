"""Addresses to which no request goes: those by which a machine in a cloud gives away its credentials, and others that
name no host."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IpAddress = IPv4Address | IPv6Address

REFUSED: list[IPv4Network | IPv6Network] = [
    ip_network(network)
    for network in (
        "0.0.0.0/8", "::/128", "224.0.0.0/4", "255.255.255.255/32", "ff00::/8",  # unspecified, multicast, broadcast
        "169.254.0.0/16", "fe80::/10", "fec0::/10",  # link-local, and site-local of old
        # metadata of clouds
        "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32", "fd00:c1::/32",
    )
]  # fmt: skip
_ENDS_WITH_IPV4 = [
    ip_network(network) for network in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
]


class AddressGuard:
    def __init__(self, allowed: Sequence[str]) -> None:
        """Allow these addresses, networks and host names whatever they are."""
        self._networks: list[IPv4Network | IPv6Network] = []
        self._names: set[str] = set()
        for allowance in allowed:
            try:
                self._networks.append(ip_network(allowance, strict=False))
            except ValueError:
                self._names.add(_plain(allowance))

    def allows_name(self, host: str) -> bool:
        return _plain(host) in self._names

    def allows(self, text: str) -> bool:
        """Return whether a connection to this numeric address is allowed."""
        try:
            address = ip_address(text)
        except ValueError:
            return False
        return self._is_allowed(address) or not any(
            any(target in network for network in REFUSED) and not self._is_allowed(target)
            for target in (address, *_embedded(address))
        )

    def _is_allowed(self, address: IpAddress) -> bool:
        return any(address in network for network in self._networks)


def _plain(host: str) -> str:
    return host.rstrip(".").lower()


def _embedded(address: IpAddress) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses to which gateways may forward packets to an IPv6 address."""
    if isinstance(address, IPv4Address) or address.is_loopback:
        return
    if any(address in network for network in _ENDS_WITH_IPV4):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    yield from address.teredo or ()

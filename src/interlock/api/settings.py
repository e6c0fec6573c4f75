"""The settings of a gateway."""

import msgspec

from interlock.model.access import Grant


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    grants: list[Grant] = []
    hosts: list[str] = []
    origins: list[str] = []
    max_body: int = 20 * 1024 * 1024
    max_connections: int = 4096
    request_timeout: float = 30.0
    secret_names: list[str] = []

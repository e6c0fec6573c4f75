"""TLS settings of the connection to a policy service, from environment variables."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from interlock.error import BadConfig, BadValue
from interlock.fields.field_types import FieldPath, Truth
from interlock.fields.sockets import is_loopback

CA, REQUIRED, INSECURE = "SAFETY_KERNEL_TLS_CA", "SAFETY_KERNEL_TLS_REQUIRED", "SAFETY_KERNEL_INSECURE"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    ca: bytes | None = None  # PEM of the authorities to trust; None for those of the system
    tls: bool = False
    insecure: bool = False  # whether a plain connection may leave this machine

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Access":
        """Read the variables. An empty one counts as not set."""
        required, insecure = (
            Truth().read(environment.get(name) or "false", FieldPath(name)) for name in (REQUIRED, INSECURE)
        )
        if required and insecure:
            raise BadConfig(f"{INSECURE}: cannot be combined with {REQUIRED}")
        path = environment.get(CA)
        try:
            ca = Path(path).read_bytes() if path else None
        except OSError as error:
            raise BadValue(CA, path, f"a file that can be read ({error.strerror})") from None
        if ca is not None and b"-----BEGIN CERTIFICATE-----" not in ca:
            raise BadValue(CA, path, "a file with certificates in PEM")
        return cls(ca=ca, tls=required or ca is not None, insecure=insecure)

    def check(self, field: str, address: str) -> None:
        """Refuse a plain connection to or from another machine, unless it is explicitly allowed."""
        if not self.tls and not self.insecure and not is_loopback(host_of(address)):
            raise BadConfig(
                f"{field}: {address} is another machine, and the connection would not be encrypted; set {CA} to the "
                f"certificate of its authority, or {REQUIRED}=true for those that the system trusts, or {INSECURE}=true"
            )


def host_of(address: str) -> str:
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")

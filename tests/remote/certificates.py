"""Certificates, made once: a right one, one of somebody else, one for another host, one that has expired."""

import ssl
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from interlock.buses.tls import fingerprint_of, server_context
from interlock.wiring.certificate import have_certificate


class Certificate(NamedTuple):
    path: Path
    key: Path

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(ssl.PEM_cert_to_DER_cert(self.path.read_text()))

    def context(self) -> ssl.SSLContext:
        return server_context(str(self.path), str(self.key))


def _made(folder: Path, name: str, hosts: Sequence[str]) -> Certificate:
    files = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    assert have_certificate(*files, hosts)
    return files


@cache
def certificates() -> dict[str, Certificate]:
    folder = Path(mkdtemp(prefix="il-tls-"))
    here = ["127.0.0.1", "localhost"]
    found = {
        "right": _made(folder, "right", here),
        "other": _made(folder, "other", here),
        "of another host": _made(folder, "elsewhere", ["scheduler.example"]),
    }
    again = ["-in", str(found["right"].path), "-signkey", str(found["right"].key), "-days", "-1"]
    old = folder / "expired.crt"
    subprocess.run(["openssl", "x509", *again, "-out", str(old)], check=True, capture_output=True)
    return found | {"expired": Certificate(old, found["right"].key)}

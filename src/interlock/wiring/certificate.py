"""Make the certificate that a scheduler shows to workers on other machines, with the program `openssl`."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from interlock.error import BadConfig, InterlockError

DAYS = 825
TIME = 60.0  # seconds for openssl


def have_certificate(certificate: Path, key: Path, hosts: Sequence[str]) -> bool:
    """Make a certificate of its own for these hosts, unless there is one; return whether it was made."""
    there = [path for path in (certificate, key) if os.path.lexists(path)]
    if len(there) == 1:
        raise BadConfig(
            f"worker_cert, worker_key: {there[0]} exists, but the other file does not; restore it, or remove both"
        )
    if there:
        return False
    new = [path.with_name(f"{path.name}.new") for path in (certificate, key)]
    try:
        _openssl(new[0], new[1], hosts)
        for path, final in zip(new, (certificate, key), strict=True):
            path.replace(final)
    finally:
        for path in new:
            with suppress(FileNotFoundError):
                path.unlink()
    return True


def _openssl(certificate: Path, key: Path, hosts: Sequence[str]) -> None:
    extensions = (
        f"subjectAltName={','.join(map(_alternative, hosts))}",
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        "extendedKeyUsage=serverAuth",
    )
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-days", str(DAYS), "-subj", "/CN=interlock", "-keyout", str(key), "-out", str(certificate)),
        *(word for extension in extensions for word in ("-addext", extension)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, umask=0o077, timeout=TIME, check=False)
    except FileNotFoundError as error:
        raise InterlockError("openssl: not found; install it, or give a certificate as worker_cert") from error
    if done.returncode != 0:
        raise InterlockError(f"openssl: no certificate was made: {' '.join(done.stderr.split())[-300:]}")


def _alternative(host: str) -> str:
    try:
        return f"IP:{ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"

"""Credentials of image registries, from the configuration file of Docker."""

import asyncio
import base64
import os
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from interlock.supervision.engines import EngineError

HUB = "https://index.docker.io/v1/"  # the name of Docker Hub in that file
HELPER_TIME = 30.0  # seconds for a credential helper to answer


class _Login(msgspec.Struct, frozen=True):
    auth: str = ""  # user and password
    identitytoken: str = ""


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    auths: dict[str, _Login] = {}
    creds_store: str = ""
    cred_helpers: dict[str, str] = {}


class _Helped(msgspec.Struct, frozen=True, rename="pascal"):
    """The answer of a credential helper."""

    username: str
    secret: str


def registry_of(image: str) -> str:
    host, slash, _ = image.partition("/")
    return host if slash and (host == "localhost" or "." in host or ":" in host) else HUB


async def credentials_for(image: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the credentials for the registry of an image as engines take them; None without any. Raise `EngineError`
    if they cannot be read."""
    registry, (file, config) = registry_of(image), _configuration(environ)
    if helper := config.cred_helpers.get(registry, config.creds_store):
        found = await _ask_helper(helper, registry)
    else:
        login = next((config.auths[name] for name in _names(registry) if name in config.auths), None)
        found = None if login is None else _of_login(login, registry, file)
    if found is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode({"serveraddress": registry, **found})).decode()


def _configuration(environ: Mapping[str, str]) -> tuple[Path, _Config]:
    file = Path(environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker"), "config.json")
    try:
        return file, msgspec.json.decode(file.read_bytes(), type=_Config)
    except (FileNotFoundError, NotADirectoryError):
        return file, _Config()
    except (OSError, msgspec.MsgspecError) as error:
        raise EngineError(f"the credentials in {file} cannot be read: {error}") from None


def _names(registry: str) -> tuple[str, ...]:
    return registry, f"https://{registry}", f"https://{registry}/v1/", f"https://{registry}/v2/"


def _of_login(login: _Login, registry: str, file: Path) -> dict[str, Any] | None:
    if login.identitytoken:
        return {"identitytoken": login.identitytoken}
    try:
        user, colon, password = base64.b64decode(login.auth, validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if login.auth and not colon:
        raise EngineError(
            f"the credentials for {registry} in {file} cannot be read: auth is not user:password in base64"
        )
    return {"username": user, "password": password} if colon else None


async def _ask_helper(name: str, registry: str) -> dict[str, Any] | None:
    program = f"docker-credential-{name}"
    try:
        process = await asyncio.create_subprocess_exec(program, "get", stdin=PIPE, stdout=PIPE, stderr=PIPE)
    except OSError as error:
        raise EngineError(f"the credential helper {program} cannot be started: {error.strerror}") from None
    try:
        async with asyncio.timeout(HELPER_TIME):
            out, err = await process.communicate(registry.encode())
    except TimeoutError:
        raise EngineError(f"the credential helper {program} did not answer within {HELPER_TIME:g}s") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != 0:
        said = " ".join((out or err).decode(errors="replace").split())
        if "credentials not found" in said:
            return None
        raise EngineError(f"the credential helper {program} failed for {registry}: {said[:400]}")
    try:
        found = msgspec.json.decode(out, type=_Helped)
    except msgspec.MsgspecError:
        raise EngineError(f"the credential helper {program} sent an answer that cannot be read") from None
    if found.username == "<token>":
        return {"identitytoken": found.secret}
    return {"username": found.username, "password": found.secret}

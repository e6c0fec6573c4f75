"""Tokens of the settings file: the callers over HTTP, and workers elsewhere."""

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.error import BadUse, BadValue, Repeated
from interlock.fields.field_types import NAME, NAME_RULE, FieldPath, Kind, Schema, Text, Texts, did_you_mean
from interlock.model.access import EVERY_TENANT, Caller, Grant, Role, digest_of

SECRETS = ("sha256", "token", "env")
SECRET = Text(r"[!-~]{16,512}", "16 to 512 printable characters without spaces", hidden=True)


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A caller and its secret, given as exactly one of `sha256`, `token` and `env`."""

    name: str
    role: Role
    tenant: str = "default"
    sha256: str | None = None  # hash of the token, in hexadecimal digits
    token: str | None = None
    env: str | None = None  # name of the environment variable that holds the token
    pools: tuple[str, ...] = ()  # those that a worker may join; empty for all

    @property
    def identity(self) -> str:
        """A text that differs if role, tenant, pools or secret do, and that does not lead back to the secret."""
        whole = b"interlock token\0" + self.grant().digest
        return f"{self.scope}, {hashlib.blake2b(whole, digest_size=8).hexdigest()}"

    @property
    def scope(self) -> str:
        """Role, tenant and pools."""
        return f"{self.role} of {self.tenant}" + (f" in {', '.join(self.pools)}" if self.pools else "")

    def grant(self) -> Grant:
        """Return the value that a gateway recognises this token by; raise if its variable does not hold it."""
        if self.sha256 is not None:
            digest = bytes.fromhex(self.sha256)
        elif self.env is not None:
            text = os.environ.get(self.env, "")
            if not SECRET.pattern.fullmatch(text):
                raise BadValue(f"tokens: {self.name}: env", self.env, f"a variable with {SECRET.expected}")
            digest = digest_of(text)
        else:
            digest = digest_of(self.token or "")
        return Grant(digest, Caller(self.name, self.role, self.tenant, self.pools))


class Tokens(Kind):
    """A list of tokens."""

    FIELDS: Mapping[str, Text | Texts] = {
        "name": Text(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}", "a name of letters, digits, '_', '.', '@' and '-'"),
        "role": Text("|".join(Role), f"one of {', '.join(Role)}"),
        "tenant": Text(r"\*|[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", f"a tenant's name, or '{EVERY_TENANT}' for all tenants"),
        "sha256": Text(r"[0-9a-fA-F]{64}", "64 hexadecimal digits", hidden=True),
        "token": SECRET,
        "env": Text(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable"),
        "pools": Texts(Text(NAME, NAME_RULE.format(64)), make=tuple),
    }

    def check(self, value: Any, place: FieldPath) -> list[Token]:
        if not isinstance(value, (list, tuple)):
            raise BadValue(str(place), "…", "a list of tokens")
        found: dict[str, Token] = {}
        owners: dict[bytes, str] = {}
        for number, one in enumerate(value):
            token = one if isinstance(one, Token) else self._token(one, place.at(number))
            if token.name in found:
                raise Repeated(str(place.at(number).at("name")), token.name, "each token needs its own name")
            found[token.name] = token
            if token.env is None:
                owner = owners.setdefault(token.grant().digest, token.name)
                if owner != token.name:
                    raise BadUse(str(place.at(number)), f"{token.name!r} has the same secret as {owner!r}")
        return list(found.values())

    def _token(self, value: object, place: FieldPath) -> Token:
        if not isinstance(value, dict):
            raise BadValue(str(place), "…", "a mapping with name, role and one of sha256, token, env")
        fields: dict[str, Any] = {}
        for key, one in value.items():
            if key not in self.FIELDS:
                raise BadValue(str(place.at(key)), key, f"a field of a token{did_you_mean(key, self.FIELDS)}")
            fields[key] = self.FIELDS[key].check(one, place.at(key))
        for key in ("name", "role"):
            if key not in fields:
                raise BadUse(str(place), f"{key} is missing")
        if sum(key in fields for key in SECRETS) != 1:
            raise BadUse(str(place), f"{fields['name']!r} needs exactly one of sha256, token and env")
        if "pools" in fields and fields["role"] != Role.WORKER:
            raise BadUse(str(place.at("pools")), f"a token of role {fields['role']} has none; only workers have pools")
        return Token(**fields | {"role": Role(fields["role"])})

    def schema(self) -> Schema:
        fields = {name: kind.schema() for name, kind in self.FIELDS.items()}
        fields["role"] = {"enum": [role.value for role in Role]}
        fields["tenant"]["default"] = "default"
        return {
            "type": "array",
            "items": {
                "type": "object",
                "properties": fields,
                "required": ["name", "role"],
                "oneOf": [{"required": [name]} for name in SECRETS],
                "additionalProperties": False,
            },
        }

    def show(self, value: list[Token]) -> str:
        return ", ".join(f"{token.name} ({token.scope})" for token in value)

"""The scanner `secrets`: well-known formats, with checksums where they have one, and values after telling names."""

import re
from base64 import urlsafe_b64decode
from binascii import crc32
from collections import Counter
from collections.abc import Iterator
from functools import cache
from math import log2
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits

from interlock.fields.secret import MARK
from interlock.policy.scan.detector import Detector, Detectors, HitCheck, marker
from interlock.policy.scan.document import replaced

ROUNDS = 3  # a redaction may uncover another secret

_BASE62 = (digits + ascii_uppercase + ascii_lowercase).encode()
_LOOSE = frozenset((ascii_letters + digits + "_-").encode())


def github_checksum(body: bytes) -> bytes:
    """Return the last six characters of a token of GitHub or npm: CRC-32 of the rest, in base 62."""
    number, found = crc32(body), bytearray()
    for _ in range(6):
        number, digit = divmod(number, 62)
        found.append(_BASE62[digit])
    return bytes(reversed(found))


def _has_checksum(data: bytes, start: int, end: int) -> int:
    body = data[data.index(b"_", start) + 1 : end]
    return end if github_checksum(body[:-6]) == body[-6:] else 0


def _ends(data: bytes, start: int, end: int) -> int:
    """Refuse a hit in the middle of a longer word; `\\b` takes a hyphen for an end."""
    return 0 if data[end : end + 1] and data[end] in _LOOSE else end


def _first_part(data: bytes, start: int) -> bytes:
    """Return the part before the first dot, which is in base 64; empty if it is not."""
    head = data[start : data.index(b".", start)]
    try:
        return urlsafe_b64decode(head + b"=" * (-len(head) % 4))
    except ValueError:
        return b""


def _is_jwt(data: bytes, start: int, end: int) -> int:
    return end if b'"alg"' in _first_part(data, start) else 0


def _is_bot_token(data: bytes, start: int, end: int) -> int:
    """The first part of a Discord token is the id of its user."""
    return end if _first_part(data, start).isdigit() else 0


# Values after a telling name.

_PASSWORD = r"(?:password|passwd|passphrase|passwort|pwd)"
_KEY = (
    r"(?:secret|token|credentials?|"
    r"(?:api|access|private|secret|auth|account|encryption|signing|master|shared)[ _-]?key)"
)
_OPERATOR = r"""["']?\s{0,3}(?:=>|:=|=|:)\s{0,3}"""
_HINT = r"""(?i){}["']?\s*[=:]"""
_NOT_NAMES = re.compile(rb"(?i)(?:page|next|continuation|sync|cursor|csrf|xsrf|design)[ _-]?token\W{0,8}$")
_PLACEHOLDERS = frozenset(
    b"none null nil true false undefined required optional string str text empty missing unset default redacted hidden "
    b"masked secret password passwd pass example changed expired invalid incorrect wrong reset unknown".split()
)
_PLACEHOLDER_STARTS = (
    b"[redacted", b"<", b"{", b"${", b"$(", b"%(", b"%s", b"***", b"...", b"xxx", b"your", "•".encode(), "…".encode(),
)  # fmt: skip
_REFERENCE = re.compile(  # a.b, a::b, f(x), names[0, [name], $NAME
    rb"[a-z_][a-z0-9_]*(?:(?:\.|->|::)[a-z_][a-z0-9_]*)+|[a-z_][\w.]*(?:\[|[(\[].*[)\]])|\[\w+\]\W*|\$[a-z_]\w*", re.S
)


def entropy(text: bytes) -> float:
    """Return the bits per character of a text by its own distribution."""
    size = len(text)
    return -sum(count / size * log2(count / size) for count in Counter(text).values())


def _is_placeholder(text: bytes) -> bool:
    plain = text.strip().strip(b"\"'.,;:!").lower()
    return (
        len(plain) < 4
        or plain in _PLACEHOLDERS
        or plain.startswith(_PLACEHOLDER_STARTS)
        or len(set(plain)) < 3
        or _REFERENCE.fullmatch(plain) is not None
    )


def _is_password(data: bytes, start: int, end: int) -> int:
    return 0 if _is_placeholder(data[start:end]) else end


def _is_bare_password(data: bytes, start: int, end: int) -> int:
    """Accept an unquoted word behind `=`; behind a colon, where prose may continue, only one with a digit or sign."""
    text = data[start:end].rstrip(b".,;:!?")
    loose = data[start - 1 : start] in (b" ", b":")
    is_call = data[end : end + 1] == b"("
    if is_call or _is_placeholder(text) or (loose and (text.isalpha() or not re.search(rb"[A-Za-z]", text))):
        return 0
    return start + len(text)


def _is_random(data: bytes, start: int, end: int) -> int:
    text = data[start:end]
    if _is_placeholder(text) or _NOT_NAMES.search(data[max(0, start - 40) : start]):
        return 0
    mixed = re.search(rb"[0-9]", text) and re.search(rb"[A-Za-z]", text)
    return end if mixed and entropy(text) >= 3 else 0


def _token(kind: str, pattern: str, hint: str, check: HitCheck | None = _ends) -> Detector:
    return Detector(kind, pattern, check, hint)


_FORMATS = (
    _token("aws_access_key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", r"A(?:KI|SI|BI|CC)A[A-Z2-7]{4}"),
    _token("github_token", r"\bgh[pousr]_[A-Za-z0-9]{36}\b", r"gh[pousr]_", _has_checksum),
    _token("github_token", r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b", r"github_pat_"),
    _token("gitlab_token", r"\bgl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent)-[\w-]{20,200}", r"gl[a-z]{2,5}-\w"),
    _token("bitbucket_token", r"\bATBB[A-Za-z0-9]{24}[A-F0-9]{8}\b", r"ATBB"),
    _token("atlassian_token", r"\bATATT3[\w=-]{150,250}", r"ATATT3", None),
    _token("slack_token", r"\bxox[abeoprs]-(?:[0-9]+-)*[A-Za-z0-9-]{10,200}", r"xox[abeoprs]-"),
    _token("slack_token", r"\bxapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]{20,100}", r"xapp-"),
    _token("slack_webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{30,120}",
           r"hooks\.slack\.com/", None),
    _token("discord_webhook", r"https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[\w-]{60,80}",
           r"discord(?:app)?\.com/api/webhooks/"),
    _token("discord_token", r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}", r"\.[\w-]{6}\.[\w-]{27}", _is_bot_token),
    _token("telegram_token", r"\b[0-9]{8,10}:AA[\w-]{33}", r"[0-9]:AA"),
    _token("stripe_key", r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,200}\b", r"[sr]k_(?:live|test)_"),
    _token("stripe_key", r"\bwhsec_[A-Za-z0-9+/=]{32,100}", r"whsec_", None),
    _token("square_token", r"\bsq0(?:atp|csp)-[\w-]{22,43}", r"sq0"),
    _token("shopify_token", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b", r"shp[a-z]{2}_"),
    _token("npm_token", r"\bnpm_[A-Za-z0-9]{36}\b", r"npm_", _has_checksum),
    _token("pypi_token", r"\bpypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[\w-]{50,400}", r"pypi-AgE"),
    _token("docker_token", r"\bdckr_pat_[\w-]{27}", r"dckr_pat_"),
    _token("google_api_key", r"\bAIza[\w-]{35}", r"AIza"),
    _token("google_oauth", r"\bGOCSPX-[\w-]{28}", r"GOCSPX-"),
    _token("google_oauth", r"\bya29\.[\w-]{20,400}", r"ya29\."),
    _token("openai_key", r"\bsk-[\w-]{20,200}T3BlbkFJ[\w-]{20,200}", r"T3BlbkFJ"),
    _token("anthropic_key", r"\bsk-ant-[a-z0-9]+-[\w-]{80,200}", r"sk-ant-"),
    _token("huggingface_token", r"\bhf_[A-Za-z]{34}\b", r"hf_[A-Za-z]{4}"),
    _token("digitalocean_token", r"\bdo[opr]_v1_[a-f0-9]{64}\b", r"do[opr]_v1_"),
    _token("sendgrid_key", r"\bSG\.[\w-]{22}\.[\w-]{43}", r"SG\.[\w-]{4}"),
    _token("twilio_key", r"\bSK[0-9a-f]{32}\b", r"SK[0-9a-f]{8}"),
    _token("mailgun_key", r"\bkey-[0-9a-f]{32}\b", r"key-[0-9a-f]{8}"),
    _token("databricks_token", r"\bdapi[0-9a-f]{32}\b", r"dapi[0-9a-f]{8}"),
    _token("vault_token", r"\bhv[sbr]\.[\w-]{24,300}", r"hv[sbr]\.\w{4}"),
    _token("grafana_token", r"\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}\b", r"glsa_"),
    _token("age_key", r"\bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}\b", r"AGE-SECRET-KEY-1"),
    _token("azure_key", r"\bAccountKey=([A-Za-z0-9+/]{86}==)", r"AccountKey=", None),
    _token("jwt", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{10,}",
           r"eyJ[\w-]{8}", _is_jwt),
    _token("private_key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
           r"(?:[^\x1e\x1f]*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|[^\x1e\x1f]*)",
           r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY", None),
    _token("connection_password", r"""[A-Za-z0-9]://[^\s:/?#@"'<>\x1e\x1f]{0,100}:([^\s/@"'<>\x1e\x1f]{1,200})@[\w.\[]""",
           r"""://[^\s:/?#@"'<>]{0,100}:[^\s/@"'<>]{1,200}@""", _is_password),
    _token("authorization", r"(?i)\b(?:bearer|basic)\s{1,3}([A-Za-z0-9._~+/=-]{16,})",
           r"(?i)b(?:earer|asic)\s{1,3}[A-Za-z0-9._~+/=-]{8}", _is_random),
    _token("password", rf"(?i){_PASSWORD}{_OPERATOR}"
           r"""(?:"([^"\s\x1e\x1f][^"\n\x1e\x1f]{3,199})"|'([^'\s\x1e\x1f][^'\n\x1e\x1f]{3,199})')""",
           _HINT.format(_PASSWORD), _is_password),
    _token("password", rf"(?i){_PASSWORD}{_OPERATOR}" r"""([^\s"'`,;&<>()\x1e\x1f]{6,200})""",
           _HINT.format(_PASSWORD), _is_bare_password),
    _token("marked_secret", rf"{re.escape(MARK)}\x1f([^\x1e\x1f]+)", rf'{re.escape(MARK)}"\s*:', _is_password),
    _token("password", rf"(?i){_PASSWORD}\x1f([^\x1e\x1f]{{4,400}})", _HINT.format(_PASSWORD), _is_password),
)  # fmt: skip

_NAMED = (
    _token("named_secret", rf"(?i){_KEY}(?:{_OPERATOR}" r"""["']?|\x1f)([A-Za-z0-9_.~+/=!@#$%^*:-]{16,400})""",
           _HINT.format(_KEY), _is_random),
)  # fmt: skip


@cache
def secrets(named: bool = True) -> Detectors:
    """Return the detectors; `named` adds values that only their name and their entropy give away."""
    return Detectors((*_FORMATS, *_NAMED) if named else _FORMATS)


def _hits(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    return ((start, end, marker(kind)) for start, end, kind in secrets().find(data))


def redact_secrets(text: str) -> str:
    """Replace the secrets in a log line or an error message."""
    detectors = secrets()
    data = text.encode("utf-8", "surrogatepass")
    if detectors.prefilter(data) is None:
        return text
    for _ in range(ROUNDS):
        if not (spans := list(_hits(data))):
            break
        data = replaced(data, spans)
    return data.decode("utf-8", "surrogatepass")

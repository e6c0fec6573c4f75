"""The scanner `personal_data`: numbers with check digits, and addresses. An id whose format is only digits, and whose
check digit many numbers pass, counts only after its own name."""

import re
from collections.abc import Sequence
from datetime import date
from functools import cache

from interlock.model.policy.scanner import PERSONAL
from interlock.policy.scan.detector import Detector, Detectors, HitCheck

_NOT_DIGITS = re.compile(rb"[^0-9]")


def _digits(text: bytes) -> list[int]:
    return [byte - 48 for byte in _NOT_DIGITS.sub(b"", text)]


def luhn(digits: Sequence[int]) -> bool:
    odd, even = digits[-1::-2], digits[-2::-2]
    return (sum(odd) + sum(digit * 2 - 9 * (digit > 4) for digit in even)) % 10 == 0


def _weighted(digits: Sequence[int], weights: Sequence[int]) -> int:
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=True))


# Cards: prefixes and lengths of the networks.
_NETWORKS: tuple[tuple[range, tuple[int, ...]], ...] = (
    (range(4000, 5000), (13, 16, 19)),
    (range(5100, 5600), (16,)),
    (range(2221, 2721), (16,)),
    (range(3400, 3500), (15,)),
    (range(3700, 3800), (15,)),
    (range(6011, 6012), (16, 17, 18, 19)),
    (range(6440, 6600), (16, 17, 18, 19)),
    (range(3000, 3060), (14,)),
    (range(3600, 3700), (14,)),
    (range(3800, 4000), (14,)),
    (range(3528, 3590), (16, 17, 18, 19)),
    (range(6200, 6300), (16, 17, 18, 19)),
    *((range(first, first + 1), (13, 15, 16, 19)) for first in (5018, 5020, 5038, 5893, 6304, 6759, 6761, 6762, 6763)),
)


def _inside_number(data: bytes, start: int, end: int) -> bool:
    """Return whether digits are only a part of a decimal number, a version or a longer series."""
    before, after = data[max(0, start - 2) : start], data[end : end + 2]
    return bool(re.search(rb"[0-9][.,-]$|[.+_-]$", before) or re.match(rb"[.,-][0-9]", after))


def _is_card(data: bytes, start: int, end: int) -> int:
    digits = _digits(data[start:end])
    prefix = int("".join(map(str, digits[:4])))
    known = any(prefix in prefixes and len(digits) in lengths for prefixes, lengths in _NETWORKS)
    return end if known and len(set(digits)) > 1 and luhn(digits) and not _inside_number(data, start, end) else 0


IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29,
    "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29,
    "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
    "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28,
    "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20,
    "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25,
    "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27,
    "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip


def _is_iban(data: bytes, start: int, end: int) -> int:
    """Take as many characters as the country has: the next word may be in capitals too."""
    missing = IBAN_LENGTHS.get(data[start : start + 2].decode(), 0)
    if not missing:
        return 0
    stop = start
    while missing and stop < end:
        missing -= data[stop] != 0x20
        stop += 1
    text = data[start:stop].replace(b" ", b"").decode()
    if missing or data[stop : stop + 1].isalnum():
        return 0
    return stop if int("".join(str(int(letter, 36)) for letter in text[4:] + text[:4])) % 97 == 1 else 0


_NOT_DOMAINS = frozenset(
    b"png jpg jpeg gif svg webp ico pdf js ts css html json yaml yml py md txt sh service timer socket target mount "
    b"local internal".split()
)


def _is_email(data: bytes, start: int, end: int) -> int:
    name, _, domain = data[start:end].partition(b"@")
    is_remote = name == b"git" or data[max(0, start - 3) : start].endswith((b"://", b"/"))
    bad_dots = b".." in data[start:end] or name.startswith(b".") or name.endswith(b".")
    return 0 if is_remote or bad_dots or domain.rpartition(b".")[2].lower() in _NOT_DOMAINS else end


_CALLING_CODES = re.compile(
    rb"(?:1[2-9]|7[3489]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|2[1-69][0-9]|3[578][0-9]|42[0-9]"
    rb"|5[09][0-9]|6[789][0-9]|85[0-9]|88[06]|9[679][0-9])"
)


def _is_phone(data: bytes, start: int, end: int) -> int:
    text = data[start:end]
    before = data[start - 1 : start] if start else b""
    if before.isalnum() or before in (b"+", b".", b"-", b"_", b"/") or _inside_number(data, start, end):
        return 0
    if text.startswith(b"+"):
        number = _NOT_DIGITS.sub(b"", text)
        is_date = re.match(rb"\+[0-9]{4}-[0-9]{2}-[0-9]{2}", text)
        return end if 8 <= len(number) <= 15 and _CALLING_CODES.match(number) and not is_date else 0
    return end


_PHONE_NAME = r"\b(?:phone|tel|telephone|telefon|mobile|cell|fax)"


# National ids.


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _is_ssn(data: bytes, start: int, end: int) -> int:
    text = b"%09d" % int(_NOT_DIGITS.sub(b"", data[start:end]))
    area, group, serial = text[:3], text[3:5], text[5:]
    advertised = text in (b"078051120", b"219099999", b"123456789") or text[:8] == b"98765432"
    invalid = area in (b"000", b"666") or area >= b"900" or group == b"00" or serial == b"0000"
    return 0 if invalid or advertised or _inside_number(data, start, end) else end


def _is_nino(data: bytes, start: int, end: int) -> int:
    return 0 if data[start : start + 2] in (b"BG", b"GB", b"NK", b"KN", b"TN", b"NT", b"ZZ") else end


def _is_steuer_id(data: bytes, start: int, end: int) -> int:
    digits = _digits(data[start:end])
    counts = sorted(digits[:10].count(digit) for digit in range(10))
    if digits[0] == 0 or counts[-1] not in (2, 3) or counts[-2] != 1 or _inside_number(data, start, end):
        return 0
    product = 10  # ISO 7064, mod 11,10
    for digit in digits[:10]:
        product = ((digit + product) % 10 or 10) * 2 % 11
    return end if (11 - product) % 10 == digits[10] else 0


def _is_nir(data: bytes, start: int, end: int) -> int:
    text = data[start:end].replace(b" ", b"").upper()
    number = int(text[:13].replace(b"2A", b"19").replace(b"2B", b"18"))
    return end if 97 - number % 97 == int(text[13:]) and not _inside_number(data, start, end) else 0


def _is_dni(data: bytes, start: int, end: int) -> int:
    text = data[start:end].replace(b"-", b"")
    number = int(text[:-1].translate(bytes.maketrans(b"XYZ", b"012")))
    return end if b"TRWAGMYFPDXBNJZSQVHLCKE"[number % 23] == text[-1] else 0


_ODD_VALUES = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)


def _is_codice_fiscale(data: bytes, start: int, end: int) -> int:
    values = [int(chr(byte), 36) - (10 if byte > 57 else 0) for byte in data[start:end].upper()]
    total = sum(_ODD_VALUES[value] for value in values[:15:2]) + sum(values[1:15:2])
    return end if total % 26 == values[15] else 0


def _is_bsn(data: bytes, start: int, end: int) -> int:
    digits = _digits(data[start:end])
    return end if any(digits) and _weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0 else 0


def _is_pesel(data: bytes, start: int, end: int) -> int:
    digits = _digits(data[start:end])
    century, month = divmod(digits[2] * 10 + digits[3], 20)
    year = (1900, 2000, 2100, 2200, 1800)[century] + digits[0] * 10 + digits[1]
    valid = _weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0
    return end if valid and _is_date(year, month, digits[4] * 10 + digits[5]) else 0


def _is_personnummer(data: bytes, start: int, end: int) -> int:
    digits = _digits(data[start:end])[-10:]
    year, month, day = (digits[at] * 10 + digits[at + 1] for at in (0, 2, 4))
    day -= 60 * (day > 60)  # a coordination number
    valid = luhn(digits) and _is_date(2000 + year, month, day)
    return end if valid and not _inside_number(data, start, end) else 0


def _is_cpf(data: bytes, start: int, end: int) -> int:
    digits = _digits(data[start:end])
    if len(set(digits)) == 1:
        return 0
    valid = all(_weighted(digits[:size], range(size + 1, 1, -1)) * 10 % 11 % 10 == digits[size] for size in (9, 10))
    return end if valid else 0


_GAP = r"[^0-9a-z\x1e]{1,12}"


def _after(names: str, digits: str) -> str:
    """Return a pattern for digits after a name, in prose or as the value of a JSON key."""
    return rf"(?i)\b(?:[a-z]+_)?(?:{names}){_GAP}(?:is )?({digits})\b"


def _national(kind: str, check: HitCheck, *patterns: str) -> list[Detector]:
    # In raw JSON any number of spaces may stand between a name and its value.
    return [Detector(kind, pattern, check, pattern.replace(_GAP, r"[^0-9a-z]+")) for pattern in patterns]


_DETECTORS: dict[str, list[Detector]] = {
    "cards": [
        Detector(
            "card",
            r"\b(?:[2-6][0-9]{12,18}|[2-6][0-9]{3}[ -][0-9]{4}[ -][0-9]{4}[ -][0-9]{4}"
            r"|3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5})\b",
            _is_card,
        )
    ],
    "iban": [
        Detector("iban", r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}", _is_iban, r"\b[A-Z]{2}[0-9]{2} ?[A-Z0-9]{4}")
    ],
    "email": [
        Detector(
            "email",
            r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b",
            _is_email,
            r"[A-Za-z0-9._%+-]@[A-Za-z0-9-]+\.",
        )
    ],
    "phone": [
        Detector("phone", r"\+[1-9](?:[ .()-]{0,2}[0-9]){7,14}\b", _is_phone),
        Detector("phone", r"\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[ .-][0-9]{4}\b", _is_phone),
        Detector("phone", r"\b[2-9][0-9]{2}[.-][2-9][0-9]{2}[.-][0-9]{4}\b", _is_phone),
        Detector(
            "phone",
            rf"(?i){_PHONE_NAME}[^0-9a-z+\x1e]{{1,6}}(0(?:[ ./()-]{{0,2}}[0-9]){{7,13}})\b",
            hint=rf"(?i){_PHONE_NAME}\W+0[0-9 ./()-]",
        ),
    ],
    "national_id": [
        *_national("us_ssn", _is_ssn, r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b"),
        *_national("us_ssn", _is_ssn, _after(r"ssn|social[ _-]?security(?:[ _-]?(?:number|no\.?))?", "[0-9]{9}")),
        *_national(
            "uk_nino", _is_nino,
            r"\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]\b",
        ),
        *_national("de_steuer_id", _is_steuer_id, r"\b[1-9][0-9]{10}\b", r"\b[1-9][0-9] [0-9]{3} [0-9]{3} [0-9]{3}\b"),
        *_national(
            "fr_nir", _is_nir,
            r"(?i)\b[1-478] ?[0-9]{2} ?(?:0[1-9]|1[0-2]|[2-9][0-9]) ?(?:[0-9]{2}|2[AB])"
            r" ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}\b",
        ),
        *_national("es_dni", _is_dni, r"\b(?:[0-9]{8}|[XYZ][0-9]{7})-?[A-HJ-NP-TV-Z]\b"),
        *_national(
            "it_codice_fiscale", _is_codice_fiscale,
            r"(?i)\b[A-Z]{6}[0-9LMNP-V]{2}[A-EHLMPR-T][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]\b",
        ),
        *_national("nl_bsn", _is_bsn, _after("bsn|burgerservicenummer|sofinummer", "[0-9]{9}")),
        *_national("pl_pesel", _is_pesel, _after("pesel", "[0-9]{11}")),
        *_national("se_personnummer", _is_personnummer, r"\b(?:19|20)?[0-9]{6}[-+][0-9]{4}\b"),
        *_national("se_personnummer", _is_personnummer, _after("personnummer", "(?:19|20)?[0-9]{10}")),
        *_national("br_cpf", _is_cpf, r"\b[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}\b"),
        *_national("br_cpf", _is_cpf, _after("cpf", "[0-9]{11}")),
    ],
}  # fmt: skip


@cache
def personal_data(kinds: tuple[str, ...] = ()) -> Detectors:
    return Detectors(detector for kind in kinds or PERSONAL for detector in _DETECTORS[kind])

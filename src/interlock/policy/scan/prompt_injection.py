"""The scanner `prompt_injection`: texts that try to give orders to a language model that will read the result.

This is a heuristic. It knows common English phrases, the role markers of common models, and ways to hide text from a
person. Anybody who knows these patterns can write around them, so a result without findings is not thereby safe.
"""

from functools import cache

from interlock.policy.scan.detector import Detector, Detectors

_OLD = r"(?:previous|prior|above|earlier|preceding|existing|original|foregoing|initial|system)"
_ORDERS = r"(?:instructions?|prompts?|rules|directions?|directives?|guidelines|messages?|commands?|orders|constraints)"


def _not_in_flag(data: bytes, start: int, end: int) -> int:
    """The flags of England, Scotland and Wales are a black flag followed by tags."""
    return 0 if data[max(0, start - 4) : start] == "\U0001f3f4".encode() and end - start <= 4 * 8 else end


_DETECTORS = (
    Detector(
        "instruction_override",
        rf"(?i)\b(?:ignore|disregard|forget|override|bypass|skip)\s+(?:(?:all|any|the|your|my|of|these|those|every)\s+){{0,4}}"
        rf"{_OLD}\s+(?:[a-z]+\s+){{0,2}}{_ORDERS}",
        hint=r"(?i)\b(?:ignore|disregard|forget|override|bypass|skip)\s+[a-z]+\s",
    ),
    Detector(
        "instruction_override",
        rf"(?i)\b(?:ignore|disregard|forget)\s+(?:all|any|everything)\s+(?:of\s+)?(?:your|the|you(?:'ve| have| were))"
        rf"\s+(?:been\s+|told|{_ORDERS}|training)",
        hint=r"(?i)\b(?:ignore|disregard|forget|override|bypass|skip)\s+[a-z]+\s",
    ),
    Detector(
        "instruction_override",
        r"(?i)\b(?:your\s+)?new\s+(?:system\s+)?(?:instructions?|prompt)\s*(?:are|is)?\s*:",
        hint=r"(?i)\bnew\s+(?:system\s+)?(?:instruct|prompt)",
    ),
    Detector(
        "prompt_extraction",
        r"(?i)\b(?:reveal|print|show|repeat|output|leak|disclose|display)\s+(?:me\s+)?(?:all\s+)?(?:of\s+)?(?:your|the)\s+"
        r"(?:(?:full|entire)\s+)?(?:system|hidden|initial|secret|original)\s+(?:prompt|instructions?|message)",
        hint=r"(?i)(?:prompt|instructions?|message)",
    ),
    Detector(
        "jailbreak",
        r"(?i)\b(?:do\s+anything\s+now|(?:developer|jailbreak|god|dan)\s+mode\s+(?:is\s+)?(?:now\s+)?(?:enabled|activated|on\b)"
        r"|you\s+are\s+now\s+(?:in\s+)?(?:dan\b|(?:developer|jailbreak|god)\s+mode|an?\s+(?:unrestricted|unfiltered|uncensored))"
        r"|(?:pretend|act\s+as\s+if)\s+you\s+have\s+no\s+(?:restrictions|rules|guidelines|limits))",
    ),
    Detector(
        "concealment",
        r"(?i)\b(?:(?:do\s+not|don't|never)\s+(?:tell|inform|alert|notify|mention\s+(?:this|it)\s+to|reveal\s+(?:this|it)\s+to)"
        r"|without\s+(?:telling|informing|alerting|notifying|asking))\s+the\s+(?:user|human|operator)\b",
    ),
    Detector(
        "role_marker",
        r"<\|(?:im_start|im_end|im_sep|system|assistant|user|endoftext|begin_of_text|start_header_id|end_header_id|eot_id)\|>"
        r"|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>|(?i:</?(?:system|assistant)(?:[_-](?:prompt|message|instructions?))?>)"
        r"|(?i:#{2,4}\s*(?:system|assistant)(?:\s+(?:prompt|message|instructions?))?\s*:)",
    ),
    Detector("role_marker", r"\n\n(?:Human|Assistant|System): ?[^\n\x1e\x1f]", hint=r"\n\n(?:Human|Assistant|System):"),
    Detector("invisible_text", r"[\x{E0000}-\x{E007F}]+", _not_in_flag),
    Detector("invisible_text", r"[\x{E0100}-\x{E01EF}]{3,}"),
    Detector("invisible_text", r"[\x{200B}\x{200C}\x{200D}\x{2060}-\x{2064}\x{FEFF}]{4,}"),
    Detector("invisible_text", r"[\x{202D}\x{202E}]"),
    Detector(
        "hidden_html",
        r"(?i)<[a-z][^<>\x1e\x1f]{0,100}\sstyle\s{0,3}=[^<>\x1e\x1f]{0,150}(?:display\s{0,3}:\s{0,3}none"
        r"|visibility\s{0,3}:\s{0,3}hidden|font-size\s{0,3}:\s{0,3}0(?:px|pt|em|[;\"' ])"
        r"|opacity\s{0,3}:\s{0,3}0(?:\.0+)?[;\"' ])"
        r"[^<>\x1e\x1f]{0,150}>[^<\x1e\x1f]{0,500}",
        hint=r"(?i)\sstyle\s{0,3}=",
    ),
    Detector(
        "hidden_html",
        r"(?i)<!--[^<>\x1e\x1f]{0,300}\b(?:instructions?|prompt|assistant|ai model|language model|llm)\b"
        r"[^<>\x1e\x1f]{0,300}-->",
        hint="<!--",
    ),
    Detector(
        "data_exfiltration",
        r"(?i)!\[[^\]\x1e\x1f]{0,100}\]\(https?://[^)\s\x1e\x1f]{1,200}=(?:\{|\$|%7B|<|\[)[^)\x1e\x1f]{0,200}\)",
        hint=r"!\[[^\]]{0,100}\]\(http",
    ),
)  # fmt: skip


@cache
def prompt_injection() -> Detectors:
    return Detectors(_DETECTORS)

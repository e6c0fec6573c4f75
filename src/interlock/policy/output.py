"""Phase one of the output policy: rules about the metadata of a result."""

from collections.abc import Callable
from typing import NamedTuple

from interlock.model.policy.output import OutputMatch, OutputPolicy, OutputRule
from interlock.model.policy.scanner import OutputAction
from interlock.policy.glob import matcher
from interlock.policy.scan import Scanners, redact_secrets

KEY_BEGINS, KEY_ENDS = "-----BEGIN ", "-----END "
KEY_LINE = "[redacted:private_key]"
LONGEST_KEY = 100  # lines of a private key


class Metadata(NamedTuple):
    """The metadata of a result, known without reading it."""

    topic: str
    tenant: str
    sensitivity: str
    size: int
    exit_code: int | None


class CompiledOutputPolicy:
    """A compiled output policy."""

    def __init__(self, document: OutputPolicy) -> None:
        self.document = document
        self.redact: Callable[[str], str] = redact_secrets  # for the errors and logs of runs
        # So that a fault, or a missing library, is found as the policy is loaded.
        redact_secrets("")
        if document.scanners:
            Scanners(document.scanners, {str(scanner.name): lambda _: None for scanner in document.scanners})

    def judge(self, result: Metadata) -> OutputRule | None:
        """Return the rule that withholds a result, if any."""
        decided = next((rule for rule in self.document.rules if _fits(rule.match, result)), None)
        return None if decided is None or decided.decision is OutputAction.ALLOW else decided


def _fits(match: OutputMatch, result: Metadata) -> object:
    return (
        (not match.topics or matcher(match.topics)(result.topic))
        and (not match.tenants or matcher(match.tenants)(result.tenant))
        and (not match.sensitivity or result.sensitivity in match.sensitivity)
        and (match.over is None or result.size > match.over)
        and match.exit_code in (None, result.exit_code)
    )


def redact_line(text: str, of_key: int) -> tuple[str, int]:
    """Return a line of a log without secrets, and how many of the next ones may belong to a private key. `of_key` is
    what this returned for the line before."""
    if of_key:
        return KEY_LINE, 0 if KEY_ENDS in text else of_key - 1
    begins = text.rfind(KEY_BEGINS)
    is_open = begins >= 0 and "PRIVATE KEY" in text[begins:] and KEY_ENDS not in text[begins:]
    return redact_secrets(text), LONGEST_KEY if is_open else 0

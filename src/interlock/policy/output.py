"""Phase one of the output policy: rules about the metadata of a result."""

from collections.abc import Callable
from typing import NamedTuple

from interlock.model.policy.output import OutputMatch, OutputPolicy, OutputRule
from interlock.model.policy.scanner import OutputAction
from interlock.policy.glob import matcher
from interlock.policy.scan import compile_scanners, redact_secrets

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
            compile_scanners(document.scanners, {str(scanner.name): lambda _: None for scanner in document.scanners})
        self._rules = [(rule, _tests(rule.match)) for rule in document.rules]

    def judge(self, result: Metadata) -> OutputRule | None:
        """Return the rule that withholds a result, if any."""
        for rule, tests in self._rules:
            if all(test(result) for test in tests):
                return None if rule.decision is OutputAction.ALLOW else rule
        return None


def _tests(match: OutputMatch) -> list[Callable[[Metadata], object]]:
    found: list[Callable[[Metadata], object]] = []
    if match.topics:
        fits_topic = matcher(match.topics)
        found.append(lambda metadata: fits_topic(metadata.topic))
    if match.tenants:
        fits_tenant = matcher(match.tenants)
        found.append(lambda metadata: fits_tenant(metadata.tenant))
    if match.sensitivity:
        found.append(lambda metadata: metadata.sensitivity in match.sensitivity)
    if match.over is not None:
        over = match.over
        found.append(lambda metadata: metadata.size > over)
    if match.exit_code is not None:
        found.append(lambda metadata: metadata.exit_code == match.exit_code)
    return found


def redact_line(text: str, of_key: int) -> tuple[str, int]:
    """Return a line of a log without secrets, and how many of the next ones may belong to a private key. `of_key` is
    what this returned for the line before."""
    if of_key:
        return KEY_LINE, 0 if KEY_ENDS in text else of_key - 1
    begins = text.rfind(KEY_BEGINS)
    is_open = begins >= 0 and "PRIVATE KEY" in text[begins:] and KEY_ENDS not in text[begins:]
    return redact_secrets(text), LONGEST_KEY if is_open else 0

"""Scanners of results: find secrets, personal data and the like in a text or in JSON, and redact them.

Scanners.scan ─► prefilter over the raw bytes ─ nothing ─► clean
                   │ a hint
                   ▼
                 document: values  with their places ─► detectors ─► findings ─► decision ─► redacted document
"""

from interlock.policy.scan.detector import Finding, Scan
from interlock.policy.scan.scanners import OwnScanner, Scanners
from interlock.policy.scan.secrets import redact_secrets

__all__ = ["Finding", "OwnScanner", "Scan", "Scanners", "redact_secrets"]

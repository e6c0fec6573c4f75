"""No test has a limit on speed: a busy machine must not fail it. Properties are tried with the same values each time;
`make soak` tries them with others."""

import gc

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, max_examples=1000)
settings.load_profile("same")


def pytest_collection_finish() -> None:
    """Spare every collection of garbage the thousands of tests that stay until the end."""
    gc.collect()
    gc.freeze()

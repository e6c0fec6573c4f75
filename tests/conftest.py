"""No test has a limit on speed: a busy machine must not fail it."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

"""A folder for each test, and the proof that nothing outlives it."""

from tests.helpers.places import folder

__all__ = ["folder"]

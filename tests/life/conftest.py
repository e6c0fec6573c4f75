from tests.helpers.places import folder

__all__ = ["folder"]

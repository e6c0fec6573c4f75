"""A project of a user, which mypy --strict and pyright check as such."""

"""The policy: pure functions from a request to a verdict."""

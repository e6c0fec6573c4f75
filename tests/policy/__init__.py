"""Policy: pure functions of values, without an event loop."""

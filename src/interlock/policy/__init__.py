"""The policy: pure functions that judge what may run and what may come out. Nothing here reads a clock or does I/O."""

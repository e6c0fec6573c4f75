"""The front door: HTTP, its events as a stream, and who may come in."""

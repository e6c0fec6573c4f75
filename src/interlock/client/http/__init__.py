"""Clients over HTTP: each operation is written once, as a coroutine of `Operations` that waits for nothing but a
transport.

`AsyncClient` is `Operations` on aiohttp. `Client` runs the same coroutines on blocking sockets: they never suspend, so
one step completes each (`sync.py`), and `pause = blocking(Operations.pause)` has the exact type, signature and
docstring. A third transport, in the tests, exercises every rule without a network. Most operations are one line on the
table in `interface/operations.py`. Every submit carries an idempotency key, given or generated, which makes a repeat
safe.
"""

"""Clients over HTTP: each operation is written once, as a coroutine of `Operations` that waits for nothing but a
transport.

`AsyncClient` is `Operations` on aiohttp. `Client` runs the same coroutines on blocking sockets: they never suspend, so
one step completes each (`sync.py`), and `bulk = blocking(Operations.bulk)` has the exact type, signature and
docstring. A third transport, in the tests, exercises every rule without a network. Most operations are a line on the
requests in `interface/*_operations.py`. Every submit carries an idempotency key, given or generated, which makes a
repeat safe.
"""

"""The process beside the scheduler that makes requests to other systems: webhooks and hooks.

It is a process of its own because slow receivers must cost the scheduler nothing. It reads what is owed from the
database, read-only, and reports results to the scheduler, which stores them (`core/outbox.py`). A result counts only
for the round it belongs to; a redelivery begins a new round. A circuit for each host (`circuit.py`) bounds what a dead
receiver costs.

The time of a next try is stored as wall time. The sender counts from the highest time that the clock has shown, and
learns it from the stored tries when it starts: a clock set back delays nothing, and a clock set ahead gives up no
delivery. The address is checked when the socket is made (`http_transport.py`), so no name can change it in between.
Rows hold the names of secret variables, never the secrets.
"""

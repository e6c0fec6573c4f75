"""Adapters of the store and lease ports.

Each run is one row. A new run writes its first fields, and the table's defaults fill in the rest. An update writes one
group of fields (`model/run.py: UPDATES`), chosen by the transitions of the pass: `entry` on the way to a worker,
`execution` from start to success, `all` for everything else. `seq` guards it, so an update applied twice changes
nothing. Code that changes a field outside the group calls `Pass.touch`; the tests of the core compare each stored run
with the one in memory.

Facets (`model/facets.py`) are one msgpack value in one column, NULL for runs without any. A history row holds the
transitions of one commit for one run; the id of an update is a hash of run, attempt and seq. A partial index covers the
runs that have not ended: a start costs as much as the live runs, not as the whole history. Payloads above 256 bytes
stay out of memory while a run waits.

Stores with tables have their statements for reading, and what is made of the rows, in common: `stores/sql`.

Dead letters, deliveries, bulk requests, stored jobs, what outlasts services, and memos are records (`model/record.py`)
and share one table. Runs, history, logs, keys, job versions, the audit and schedules have tables of their own.
"""

"""The front door: HTTP, its events as a stream, and who may come in.

    command line, Client, curl, browsers            programs that have the app         worker processes
         │ HTTP: TCP 127.0.0.1:8420,                     │                                  │
         │ Unix interlock.db.http                        │ frames: Unix interlock.db.sock   │ the same
         ▼                                               ▼                                  ▼
    gateway process ── submits, cancels, waits ──► scheduler process: links ─► engine ─► core
         │                                               │
         └────────── reads ──────► interlock.db ◄────────┘ writes

The gateway is a process of its own so that no reader can slow down running work: parsing, checking, listing and
streaming cost the scheduler nothing. It opens the database read-only and asks the scheduler only for decisions and
facts that are not stored: submits, cancels, the end of a run, progress. A submit over HTTP goes through the same table
of requests as one from Python. The scheduler creates the sockets and hands them down: when a gateway dies, new
connections wait for its successor.

A request passes `protocol.py` (limits on connections, head, slow senders and readers, and on what all readers together
leave unread), `auth.py` (origin, host, token, owner of the connection), its route, and `backend.py`, which reads the
store or asks the scheduler.
"""

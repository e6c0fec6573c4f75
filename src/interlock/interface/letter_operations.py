"""The HTTP operations on dead letters, a part of the table in `operations.py`."""

from typing import Any

from interlock import error as e
from interlock.interface import queries as q
from interlock.interface.bodies import ActedOn
from interlock.interface.letter_view import LetterDetail, LetterPage, LettersBody, ReplayBody
from interlock.interface.operation import API, Key, Operation
from interlock.interface.run_view import BulkInfo
from interlock.model.letter import Dropped
from interlock.wire.letter_request import DropLetters, Replay
from interlock.wire.request import StartBulk

LETTERS = f"{API}/dead-letters"
LETTER = f"{LETTERS}/{{letter}}"

letters = Operation(
    f"GET {LETTERS}",
    "List dead letters. Runs that ended without success, except those that were cancelled or skipped, and messages of "
    "workers that cannot be read; newest first.",
    LetterPage,
    query=q.LettersQuery,
    name="letters",
)
letter = Operation(
    f"GET {LETTER}",
    "Show a dead letter. The letter with its run, its history and its error.",
    LetterDetail,
    name="letter",
)
replay = Operation(
    f"POST {LETTER}/replay",
    "Replay a dead letter. A new run with the same job, payload and tenant, or with other arguments; it passes the "
    "policy like any other. The letter stays, and names the new run. The answer is the new run.",
    ActedOn,
    name="replay",
    status=201,
    body=ReplayBody,
    body_required=False,
    key=Key("Makes the request safe to repeat: the same key for the same letter finds the same new run."),
    asks=Replay,
    raises=(e.QueueFull, e.UnknownJob, e.BadPayload, e.PayloadTooLarge),
)
replay_many = Operation(
    f"POST {LETTERS}/replay",
    "Replay many dead letters. Those that match every field given and were not replayed. The answer comes once the "
    "request is durable: a bulk request that retries their runs, and is finished even after a restart.",
    BulkInfo,
    name="replay_many",
    status=202,
    body=LettersBody,
    key=Key("Makes the request safe to repeat: the same key in a tenant is the same bulk request."),
    asks=StartBulk,
    raises=(e.IdempotencyConflict, e.Overloaded, e.UnknownJob),
)
drop_letter = Operation(
    f"DELETE {LETTER}",
    "Drop a dead letter. Its run is kept like any other.",
    Dropped,
    asks=DropLetters,
    name="drop_letter",
)
drop_letters = Operation(
    f"POST {LETTERS}/drop",
    "Drop many dead letters. Those that match every field given, up to 1,000 in one request: repeat it while `more` is "
    "true. Their runs are kept like any other.",
    Dropped,
    body=LettersBody,
    asks=DropLetters,
    name="drop_letters",
)

LETTER_OPERATIONS: tuple[Operation[Any], ...] = (letters, letter, replay, replay_many, drop_letter, drop_letters)

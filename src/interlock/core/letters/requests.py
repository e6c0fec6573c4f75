"""Requests about dead letters, and messages of workers that cannot be read."""

import hashlib

import msgspec

from interlock.core.attempts.settle import current, lose
from interlock.core.facts import Needs
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.letter import LONGEST_ERROR, DeadLetter, Dropped, LetterCode
from interlock.wire.letter_request import DropLetters
from interlock.wire.message import Settled, Unread
from interlock.wire.request import ValueAnswer

MOST_RAW = 64 * 1024  # bytes kept of a message that cannot be read
OUTCOMES = ("Finished", "Lost", "Returned")  # messages that a worker repeats until they are settled
_parts_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_head_decoder = msgspec.msgpack.Decoder(tuple[str, str, int])


def needs_letters(state: SchedulerState, command: DropLetters, needs: Needs) -> None:
    if command.letter_id is None:
        needs.letters[command.wanted] = None


def drop(p: Pass, origin: str, command: DropLetters) -> None:
    """Drop one letter, or the page that was read; a repeated request continues with the rest."""
    only = command.letter_id
    found, more = p.facts.letters[command.wanted] if only is None else ([only], False)
    for letter_id in found:
        p.forget(DeadLetter, letter_id)
    p.answers.append((origin, ValueAnswer(command.request, Dropped(dropped=len(found), more=more))))


def unread(p: Pass, worker_id: str, message: Unread) -> None:
    """Keep a message that cannot be read. If it is the outcome of an attempt, the attempt is lost; the worker
    repeats the message until this is stored."""
    found = _attempt_of(message.raw)
    # The times in an outcome differ each time it is sent.
    key = message.raw if found is None else repr(found).encode()
    letter_id = f"poison-{hashlib.blake2b(key, digest_size=12).hexdigest()}"
    error, raw = message.error[:LONGEST_ERROR], message.raw[:MOST_RAW]
    letter = DeadLetter(letter_id, p.now, LetterCode.POISON, error, worker_id=worker_id, raw=raw)
    p.keep(p.record(DeadLetter, letter_id) or letter)
    p.warnings.append(f"worker {worker_id} sent a message that cannot be read, kept as {letter_id}: {error}")
    if found is not None:
        attempt = current(p, worker_id, *found)
        p.send(worker_id, Settled(*found))
        if attempt is not None:
            lose(p, attempt.run, f"its outcome cannot be read: {error}")


def _attempt_of(raw: bytes) -> tuple[str, int] | None:
    """Return run and fence of an outcome, if its beginning can be read."""
    try:
        kind, run_id, fence = _head_decoder.decode(msgspec.msgpack.encode(_parts_decoder.decode(raw)[:3]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return (run_id, fence) if kind in OUTCOMES else None

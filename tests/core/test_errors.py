"""Errors: each class declares its code, status, exit code and meaning."""

import pytest

from interlock import error as e

KINDS = [kind for kind in e.ERRORS.values() if kind.__module__.startswith(e.__name__)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_an_error_declares_everything(kind: type[e.InterlockError]) -> None:
    assert kind.code.isidentifier()
    assert 400 <= kind.status < 600
    assert kind.exit_code not in (e.ExitCode.FINE, e.ExitCode.INTERRUPTED, e.ExitCode.BROKEN_PIPE)
    assert kind.meaning.endswith(".")
    assert type(e.rebuild(kind.code, "text")) is kind


@pytest.mark.parametrize(
    ("error", "code", "status", "exit_code"),
    [
        (e.BadValue("lane", 7, "a text"), "bad_value", 400, 2),
        (e.BadUse("at", "cannot be combined with delay"), "bad_value", 400, 2),
        (e.UnknownRun("r"), "unknown_run", 404, 3),
        (e.RunPruned("r"), "run_pruned", 410, 3),
        (e.Unauthorized(), "unauthorized", 401, 6),
        (e.NotRunning("interlock.db.sock"), "not_running", 503, 4),
        (e.StoreUnavailable("disk full"), "store_unavailable", 503, 1),
        (e.OutcomeUnknown("the connection broke"), "outcome_unknown", 503, 1),
        (e.DatabaseGone("interlock.db"), "database_gone", 500, 1),
        (e.InterlockError("unexpected"), "internal", 500, 1),
    ],
)
def test_families_give_status_and_exit_code(error: e.InterlockError, code: str, status: int, exit_code: int) -> None:
    assert (error.code, error.status, error.exit_code) == (code, status, exit_code)


def test_an_error_of_a_newer_server_keeps_its_code_in_the_message() -> None:
    error = e.rebuild("from_the_future", "text")
    assert (type(error), str(error)) == (e.InterlockError, "text (from_the_future)")


def test_messages_name_the_field_and_the_value() -> None:
    assert str(e.BadDuration("retry.max_delay", "5 parsecs")).startswith(
        "retry.max_delay: '5 parsecs' is not a duration"
    )
    assert str(e.BadUse("limit", "given twice; allowed once")) == "limit: given twice; allowed once"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (e.Ambiguous("run", "ab", ["abc", "abd"]), "run: 'ab' is ambiguous: it begins abc, abd; give more of the id"),
        (e.Ambiguous("run", "a", ["b", "c"], 1), "run: 'a' is ambiguous: it begins b and others; give more of the id"),
        (e.TooMany("runs", 5_000, 1_000), "runs: 5,000 given; at most 1,000 are allowed"),
        (e.TooMany("runs", 2, 1, "submit fewer"), "runs: 2 given; at most 1 are allowed; submit fewer"),
        (e.Repeated("tenant", "x"), "tenant: 'x' given twice; allowed once"),
        (e.NotHere("action", "redact", "in a rule", "use deny"), "action: 'redact' is not allowed in a rule; use deny"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_wrong_in_itself_says_what_is(error: e.BadValue, says: str) -> None:
    assert (str(error), error.code, error.field) == (says, "bad_value", says.partition(":")[0])

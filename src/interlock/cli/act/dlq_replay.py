"""`interlock dlq replay`."""

from typing import Annotated, Any

from interlock.cli.act.letters import LettersArgument, choice, confirm, id_of, takes_letters
from interlock.cli.act.run_actions import follow
from interlock.cli.draw.tables import each, report_each
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, switch, takes
from interlock.cli.shared.server import client_of
from interlock.error import UnknownJob, UnknownLetter
from interlock.model.bulk import RunAction


@takes(*FINDING)
@takes_letters
def command(
    flags: Flags,
    asked: dict[str, Any],
    letters: LettersArgument = None,
    everything: Annotated[bool, switch("Replay every letter that was not replayed.", "--all")] = False,
    reason: Annotated[str, option("TEXT", "Reason to record with the new runs.")] = "replayed",
    yes: Annotated[bool, switch("Do not ask for confirmation.", "--yes", "-y")] = False,
    no_wait: Annotated[bool, switch("Do not wait for a bulk request to finish.", "--no-wait")] = False,
    json: JsonOption = False,
) -> None:
    """Replay dead letters: those you name, or all that match the options and were not replayed.

    Each becomes a new run with the same job, payload and tenant, which passes the policy like any other, and its letter
    names that run. Options that choose letters make one bulk request, as for `interlock retry`: the server carries it
    out whether or not you wait, and finishes it after a restart. Piped: the new run and the old one, separated by a
    tab; for a bulk request, a line like that of `interlock retry`."""
    choice(letters, asked, everything, "replay")
    with client_of(flags) as client:
        if not letters:
            if yes or confirm(client, "replay", {**asked, "replayed": False}):
                request = client.replay_many(reason, everything=everything, **asked).id
                follow(client, RunAction.RETRY, request, not no_wait, json)
            return

        def act(given: str) -> dict[str, str]:
            letter_id = id_of(client, given)
            return {"id": client.replay(letter_id, reason=reason).id, "retry_of": letter_id}

        done = each(letters, act, UnknownLetter, UnknownJob)
        report_each(done, json, "runs", lambda one: "\t".join(one.values()))

"""What the commands of `interlock dlq` share: the options that choose dead letters, and their form as a line."""

import time
from collections.abc import Callable
from typing import Annotated, Any

from interlock.cli.act.run_actions import MOST_COUNTED, confirmed
from interlock.cli.draw.listing import AGE, PIPE, SCREEN, Column, Listing, piped
from interlock.cli.shared import completion, server
from interlock.cli.shared.options import argument, option, widened
from interlock.cli.shared.output import WrongUsage, check_choice
from interlock.cli.shared.server import run_of
from interlock.client.http.client import Client
from interlock.fields.safe_text import last_line
from interlock.interface.letter_view import LetterInfo
from interlock.model.letter import LetterCode

ID_HELP = "Id of a dead letter, which is the id of its run, or its beginning."
LetterArgument = Annotated[str, argument("LETTER", ID_HELP, completion.runs)]
LettersArgument = Annotated[list[str] | None, argument("LETTER", ID_HELP, completion.runs)]
FILTERS: dict[str, Any] = {
    "code": Annotated[str | None, option("CODE", f"Only letters with this reason code: {', '.join(LetterCode)}.")],
    "job": Annotated[str | None, option("JOB", "Only letters of this job.", autocompletion=completion.jobs)],
    "tenant": Annotated[str | None, option("TEXT", "Only letters of this tenant.")],
    "since": Annotated[str | None, option("DURATION|TIME", "Only letters since then; 1h is the last hour.")],
    "before": Annotated[str | None, option("DURATION|TIME", "Only letters before then; 1d is older than a day.")],
}
"""options that choose dead letters"""


def _error(letter: LetterInfo) -> str:
    again = f"replayed as {letter.replayed_as}; " if letter.replayed_as else ""
    return again + last_line(letter.error)


LETTERS = Listing[LetterInfo](
    "letters",
    "there are no dead letters",
    Column("letter", "id"),
    Column("age", "at", AGE),
    Column("code", colours=dict.fromkeys(LetterCode, "red")),
    Column("job", "job_id"),
    *piped("tenant", "replayed_as", "worker_id"),
    Column("error", _error, on=SCREEN, gives_way=True),
    Column("error", lambda letter: last_line(letter.error), on=PIPE),
)


def takes_letters(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose letters; it receives the filter for the client as its argument `asked`."""

    def read(given: dict[str, Any]) -> dict[str, Any]:
        code, now = given["code"], time.time()
        check_choice("--code", code, LetterCode)
        for name in ("since", "before"):
            if given[name] is not None:
                given[name] = server.since(given[name], f"--{name}", now)
        given["until"] = given.pop("before")
        return {name: value for name, value in given.items() if value is not None}

    return widened(function, "asked", FILTERS, read)


def id_of(client: Client, given: str) -> str:
    """Return the id of the named letter: a run's, or one of its own."""
    return given if given.startswith("poison-") else run_of(client, given)


def choice(named: list[str] | None, asked: dict[str, Any], everything: bool, action: str) -> None:
    if bool(named) + (everything or bool(asked)) != 1:
        raise WrongUsage(f"name the letters to {action}, or choose them with options like --job or --all; not both")


def confirm(client: Client, action: str, asked: dict[str, Any]) -> bool:
    return confirmed(action, "dead letter", client.dead_letters(**asked, limit=MOST_COUNTED + 1))

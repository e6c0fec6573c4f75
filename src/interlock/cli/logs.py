"""`interlock logs`."""

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.server import RunArgument

if TYPE_CHECKING:
    from interlock.client.http.client import Client
    from interlock.model.view import LogLine


@takes(*FINDING)
def command(
    flags: Flags,
    run: RunArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the log lines of a run. Piped: time, attempt, level and text, with tabs between them."""
    from interlock.cli.server import client_of, run_of

    with client_of(flags) as client:
        run_id = run_of(client, run)
        printer = Printer(json)
        if follow:
            _follow(client, run_id, printer)
        else:
            for line in client.logs(run_id):
                printer.show(line)


class Printer:
    """Writes each line once, though it may be read again by another way."""

    def __init__(self, json: bool) -> None:
        import sys

        self._json = json
        self._console = None
        if sys.stdout.isatty() and not json:
            from interlock.cli.tables import console

            self._console = console()
        self._shown: list[LogLine] = []

    def show(self, line: "LogLine") -> None:
        import sys

        self._shown.append(line)
        if self._json:
            from interlock.cli.tables import json_text

            sys.stdout.write(json_text(line) + "\n")
        elif self._console is not None:
            from interlock.cli.picture import log_text

            self._console.print(log_text(line), soft_wrap=True)
        else:
            from interlock.cli.tables import plain
            from interlock.cli.words import exact

            sys.stdout.write(f"{exact(line.at)}\t{line.attempt}\t{line.level}\t{plain(line.text)}\n")

    def show_new(self, lines: "list[LogLine]") -> None:
        """Show those of the run's lines that were not shown yet; a line that occurs twice is shown twice."""
        from collections import Counter

        shown = Counter(self._shown)
        for line in lines:
            if shown[line]:
                shown[line] -= 1
            else:
                self.show(line)


def _follow(client: "Client", run_id: str, printer: Printer) -> None:
    """What is stored already, then every line as it comes, until the run has ended."""
    import sys

    from interlock.model.state import TERMINAL
    from interlock.model.view import GapEvent, HelloEvent, LogEvent, LogLine, RunEvent

    ended = client.get(run_id).state in TERMINAL
    early: list[LogLine] = []
    for _, event in client.events(run=run_id, types=("run", "log")) if not ended else ():
        if isinstance(event, (HelloEvent, GapEvent)):
            # From here on every line is told; what came before is read, and told lines that were read are known again.
            printer.show_new(early := client.logs(run_id))
            ended = client.get(run_id).state in TERMINAL
        elif isinstance(event, LogEvent):
            line = LogLine(event.at, event.attempt, event.level, event.text)
            if line in early:
                early.remove(line)
            else:
                printer.show(line)
        elif isinstance(event, RunEvent):
            ended = event.state in TERMINAL
        sys.stdout.flush()
        if ended:
            break
    printer.show_new(client.logs(run_id))

"""`interlock logs`."""

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes

if TYPE_CHECKING:
    from interlock.client.http.client import Client
    from interlock.model.run_view import LogLine, ServiceLine


@takes(*FINDING)
def command(
    flags: Flags,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The id of a run, 'latest' or '-' for the newest; or the name of a service."
        ),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until the run has ended or Ctrl-C.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Only so many of the last lines; all by default.", min=0, max=10_000),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the log lines of a run, or of a service.

    Piped: time, attempt, level and text of a run, or time, stream and text of a service, with tabs between them."""
    from interlock.cli.server import LATEST, client_of, run_of
    from interlock.model.error import UnknownRun

    with client_of(flags) as client:
        try:
            _print_run(client, run_of(client, name), follow, RunPrinter(json, tail))
        except UnknownRun as error:
            if name in LATEST:
                raise
            _print_service(client, name, follow, tail, ServicePrinter(json, name), error)


def _print_service(
    client: "Client", name: str, follow: bool, tail: int | None, printer: "ServicePrinter", no_run: Exception
) -> None:
    import sys

    from interlock.model.error import Forbidden, UnknownChild, UnknownRun, rebuild

    try:
        for line in client.service_logs(name, follow=follow, last=tail):
            printer.show(line)
            if follow:
                sys.stdout.flush()
    except UnknownChild as error:
        raise rebuild(UnknownRun.code, f"{no_run}; {error}") from None
    except Forbidden:
        # Services are not theirs to see, so what they have asked for can only be a run.
        raise no_run from None


class Printer:
    """Where lines go: a terminal, or something that reads them."""

    def __init__(self, json: bool) -> None:
        import sys

        self._json = json
        self._console = None
        if sys.stdout.isatty() and not json:
            from interlock.cli.tables import console

            self._console = console()


class ServicePrinter(Printer):
    def __init__(self, json: bool, name: str) -> None:
        super().__init__(json)
        self._name = name

    def show(self, line: "ServiceLine") -> None:
        from interlock.cli.output import safe
        from interlock.cli.tables import json_text, on_one_line, out

        if self._json:
            out(json_text(line))
        elif self._console is not None:
            from interlock.cli.picture import service_text

            self._console.print(service_text(self._name, line), soft_wrap=True)
        else:
            from interlock.cli.format import exact

            out(f"{exact(line.at)}\t{safe(line.stream)}\t{on_one_line(line.text)}")


class RunPrinter(Printer):
    """Writes each line once, though it may be read again by another way."""

    def __init__(self, json: bool, tail: int | None) -> None:
        super().__init__(json)
        self._tail = tail
        """how many of those that are read first are wanted; None for all"""
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
            from interlock.cli.format import exact
            from interlock.cli.tables import on_one_line

            sys.stdout.write(f"{exact(line.at)}\t{line.attempt}\t{line.level}\t{on_one_line(line.text)}\n")

    def show_new(self, lines: "list[LogLine]") -> None:
        """Show those of the run's lines that were not shown yet; a line that occurs twice is shown twice."""
        from collections import Counter

        if self._tail is not None:
            self._shown += lines[: max(0, len(lines) - self._tail)]
            self._tail = None
        shown = Counter(self._shown)
        for line in lines:
            if shown[line]:
                shown[line] -= 1
            else:
                self.show(line)


def _print_run(client: "Client", run_id: str, follow: bool, printer: RunPrinter) -> None:
    """What is stored already; to follow it, then every line as it comes, until the run has ended."""
    import sys

    from interlock.model.run_view import GapEvent, HelloEvent, LogEvent, LogLine, RunEvent
    from interlock.model.state import TERMINAL

    ended = not follow or client.get(run_id).state in TERMINAL
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

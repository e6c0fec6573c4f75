"""`interlock logs`."""

import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any

from interlock.cli.draw.format import exact
from interlock.cli.draw.picture import log_text, service_text
from interlock.cli.draw.tables import console, json_text, on_one_line, out, tabbed
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, switch, takes
from interlock.cli.shared.server import LATEST, RUN_HELP, client_of, run_of
from interlock.client.http.client import Client
from interlock.error import Forbidden, UnknownChild, UnknownRun, rebuild
from interlock.error_lines import say
from interlock.fields.safe_text import safe
from interlock.interface.run_view import HelloEvent, LogEvent, LogLine, ServiceLine

_WITHOUT_LAYOUT = re.compile(r"[^\n\t]+")
_screen = cache(console)  # making one takes longer than printing a line


@takes(*FINDING)
def command(
    flags: Flags,
    name: Annotated[str, argument("NAME", f"Name of a service. {RUN_HELP}", completion.logged)],
    follow: Annotated[
        bool, switch("Keep printing new lines until the run has ended, or Ctrl-C.", "--follow", "-f")
    ] = False,
    tail: Annotated[
        int | None, option("NUMBER", "Number of lines from the end. Default: all.", min=0, max=10_000)
    ] = None,
    stream: Annotated[
        bool, switch("Print what a run emits to its stream instead, until the run has ended.", "--stream", "-s")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print the log of a run or of a service, or the stream of a run.

    Piped: time, attempt, level and text of a run, or time, stream and text of a service, separated by tabs."""
    with client_of(flags) as client:
        if stream:
            _print_stream(client, run_of(client, name), json)
            return
        try:
            if name not in LATEST:
                _print_service(client, name, follow, tail, json)
                return
            no_service = ""
        except UnknownChild as error:
            no_service = f"; {error}"
        except Forbidden:  # the token may see only runs
            no_service = ""
        try:
            _print_run(client, run_of(client, name), follow, RunPrinter(json, tail))
        except UnknownRun as error:
            raise rebuild(error.code, f"{error}{no_service}") from None


def _print_line(line: LogLine | ServiceLine, json: bool, drawn: Callable[[], Any], cells: tuple[Any, ...]) -> None:
    if json:
        out(json_text(line))
    elif sys.stdout.isatty():
        _screen().print(drawn(), soft_wrap=True)
    else:
        out(f"{exact(line.at)}\t{tabbed(*cells)}\t{on_one_line(line.text)}")


def _print_service(client: Client, name: str, follow: bool, tail: int | None, json: bool) -> None:
    line = None
    for line in client.service_logs(name, follow=follow, last=tail):
        _print_line(line, json, partial(service_text, name, line), (line.stream,))
        if follow:
            sys.stdout.flush()
    _say_if_nothing(line is None, json, "the service has printed nothing")


def _say_if_nothing(is_empty: bool, json: bool, text: str) -> None:
    if is_empty and sys.stdout.isatty() and not json:
        say(text)


class RunPrinter:
    """Prints each line once, though it may arrive both stored and as an event."""

    def __init__(self, json: bool, tail: int | None) -> None:
        self._json = json
        self._tail = tail  # number of stored lines to print; None for all
        self._shown: list[LogLine] = []

    def show(self, line: LogLine) -> None:
        self._shown.append(line)
        _print_line(line, self._json, partial(log_text, line), (line.attempt, line.level))

    def show_new(self, lines: list[LogLine]) -> None:
        """Print new lines; a line that occurs twice is printed twice."""
        if self._tail is not None:
            self._shown += lines[: max(0, len(lines) - self._tail)]
            self._tail = None
        shown = Counter(self._shown)
        for line in lines:
            if shown[line]:
                shown[line] -= 1
            else:
                self.show(line)

    def finish(self, lines: list[LogLine]) -> None:
        self.show_new(lines)
        _say_if_nothing(not self._shown, self._json, "the run has logged nothing")


def _print_stream(client: Client, run_id: str, json: bool) -> None:
    """Print texts, and each other chunk on a line of its own. A retry begins on a new line. In a terminal, which would
    obey them, escape the control characters of texts, except line ends and tabs."""
    attempt, at_start, is_terminal = 1, True, sys.stdout.isatty()
    for chunk in client.stream(run_id):
        is_text = isinstance(chunk.value, str) and not json
        if not at_start and (chunk.attempt != attempt or not is_text):
            out("")
        attempt = chunk.attempt
        if is_text:
            sys.stdout.write(
                _WITHOUT_LAYOUT.sub(lambda part: safe(part[0]), chunk.value) if is_terminal else chunk.value
            )
            at_start = chunk.value.endswith("\n") if chunk.value else at_start
        else:
            out(json_text(chunk if json else chunk.value))
            at_start = True
        sys.stdout.flush()
    if not at_start:
        out("")


def _print_run(client: Client, run_id: str, follow: bool, printer: RunPrinter) -> None:
    """Print the stored lines; with `follow`, also every new line until the run has ended."""
    early: list[LogLine] = []
    for _, event in client.events(run=run_id, types="log") if follow else ():
        if isinstance(event, HelloEvent):
            # Lines that are read here come as events too.
            printer.show_new(early := client.logs(run_id))
        elif isinstance(event, LogEvent):
            line = LogLine(event.at, event.attempt, event.level, event.text, event.logger)
            if line in early:
                early.remove(line)
            else:
                printer.show(line)
        sys.stdout.flush()
    printer.finish(client.logs(run_id))

"""`interlock cancel` and the other actions on runs."""

import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from interlock.cli.draw.format import counted
from interlock.cli.draw.tables import each, present, report_each
from interlock.cli.look.runs import find_relatives, takes_filter
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, switch, takes, widened
from interlock.cli.shared.output import WrongUsage, ask
from interlock.cli.shared.server import RUN_HELP, client_of, run_of
from interlock.client.http.client import Client
from interlock.error import RunNotEnded, UnknownJob, UnknownRun
from interlock.error_lines import say
from interlock.interface.run_view import BulkInfo
from interlock.model.bulk import RunAction
from interlock.model.run import UNSUCCESSFUL
from interlock.model.state import State

CASCADE = switch("Also cancel the runs that they made, directly or not.", "--cascade")
FROM = option(
    "STEP", "Begin a workflow with this step, and take over the steps before it with their results.", "--from"
)
COMPENSATE = switch("Let a workflow undo its steps before it ends.", "--compensate")
MOST_COUNTED = 1000  # runs counted before the question


def command_of(name: str) -> Callable[..., None]:
    action = RunAction(name)

    def command(
        *,
        flags: Flags,
        runs: Annotated[list[str] | None, argument("RUN", RUN_HELP, completion.runs)] = None,
        asked: dict[str, Any],
        everything: Annotated[bool, switch(f"Act on all runs that {action.reach}.", "--all")] = False,
        more: dict[str, Any],
        request: Annotated[str | None, option("ID", "Follow an earlier bulk request.")] = None,
        reason: Annotated[str, option("TEXT", "Reason to record with the run.")] = action.done,
        yes: Annotated[bool, switch("Do not ask for confirmation.", "--yes", "-y")] = False,
        no_wait: Annotated[bool, switch("Do not wait for a bulk request to finish.", "--no-wait")] = False,
        json: JsonOption = False,
    ) -> None:
        filtered = everything or any(asked.values())
        if bool(runs) + filtered + (request is not None) != 1:
            raise WrongUsage(f"name the runs to {action}, or choose them with options like --job or --all; not both")
        if any(more.values()) and not runs:
            given = next(name for name, value in more.items() if value).removesuffix("_step")
            raise WrongUsage(f"--{given}: name the runs to {action}; it cannot be combined with a filter")
        with client_of(flags) as client:
            if runs:
                _act(client, action, runs, reason, json, **more)
                return
            find_relatives(client, asked)
            if request is None:
                matching = client.runs(**_reached(action, asked), limit=MOST_COUNTED + 1)
                if not yes and not confirmed(action, "run", matching):
                    return
                request = client.act_on_many(action, reason, everything=everything, **asked).id
            follow(client, action, request, not no_wait, json)

    command.__doc__ = (
        f"{action.capitalize()} runs: those you name, or all that match the options and {action.reach}.\n\n"
        f"{action.meaning} Options that choose runs make one bulk request. The server carries it out whether or not "
        "you wait, and finishes it after a restart; runs created later are not touched. In a pipe, the output is one "
        f"line with tabs: request id, runs {action.done}, running runs asked to stop, and `finished` or `under way`."
    )
    if action is RunAction.RELEASE:
        command.__doc__ += (
            "\n\nFor a run that you name and that is `output_quarantined`, this hands out its result. It needs "
            "`--reason`, and the role approver or admin."
        )
    own: dict[str, Any] = {
        RunAction.CANCEL: {"cascade": Annotated[bool, CASCADE], "compensate": Annotated[bool, COMPENSATE]},
        RunAction.RETRY: {"from_step": Annotated[str | None, FROM]},
    }.get(action, {})
    widest = widened(command, "more", own, lambda given: {name: value or False for name, value in given.items()})
    return takes(*FINDING)(takes_filter(widest))


def _release_output(client: Client, run_id: str, reason: str) -> State:
    if reason == RunAction.RELEASE.done:
        raise WrongUsage(f"add --reason: it is needed to release the quarantined result of run {run_id}")
    return client.release_output(run_id, reason)


def _reached(action: RunAction, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the filter of the runs that a bulk request would act on, and of those that were retried before."""
    if action is not RunAction.RETRY:
        return {**asked, "live": True}
    return {**asked, "state": asked.get("state") or UNSUCCESSFUL, "live": False}


def follow(client: Client, action: RunAction, request: str, wait: bool, json: bool) -> None:
    """Show the progress of a bulk request until it has finished."""
    drawn = wait and sys.stderr.isatty()
    found = client.bulk(request)
    try:
        for found in client.bulk_progress(request) if wait else ():
            if drawn:
                sys.stderr.write(f"\r\x1b[K{_told(found)}")
                sys.stderr.flush()
    except KeyboardInterrupt:
        say(f"\nthe server carries on; to follow it: interlock {action} --request {request}")
        raise
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
    follow = f"; to follow it: interlock {action} --request {request}" if found.ended_at is None else ""
    line = f"{found.id}\t{found.done}\t{found.asked}\t{'under way' if found.ended_at is None else 'finished'}"
    present(json, lambda: found, lambda: [line], lambda: _told(found) + follow)


def _told(bulk: BulkInfo) -> str:
    asked = f", asked {counted(bulk.asked, 'run')} to stop" if bulk.asked else ""
    left = f", {counted(bulk.left, 'run')} left to look at" if bulk.ended_at is None and bulk.left is not None else ""
    return f"{bulk.action.done} {counted(bulk.done, 'run')}{asked}{left}"


def confirmed(action: str, noun: str, found: Iterable[object]) -> bool:
    """Ask for confirmation; return False if nothing matches."""
    count = sum(1 for _ in found)
    if not count:
        say(f"no {noun} to {action}")
        return False
    many = f"more than {MOST_COUNTED:,} {noun}s" if count > MOST_COUNTED else counted(count, noun)
    if not sys.stdin.isatty():
        raise WrongUsage(f"add --yes to {action} {many}: standard input is not a terminal")
    ask(f"{action.capitalize()} {many}?")
    return True


def _act(client: Client, action: RunAction, named: list[str], reason: str, json: bool, **more: Any) -> None:
    def act(name: str) -> dict[str, str]:
        run_id = run_of(client, name)
        if action is RunAction.RETRY:
            return {"id": client.retry(run_id, reason, more["from_step"] or None).id, "retry_of": run_id}
        if action is RunAction.RELEASE and client.get(run_id).state is State.OUTPUT_QUARANTINED:
            return {"id": run_id, "state": _release_output(client, run_id, reason)}
        return {"id": run_id, "state": getattr(client, action)(run_id, reason, **more)}

    done = each(named, act, UnknownRun, UnknownJob, RunNotEnded)
    report_each(done, json, "runs", lambda one: "\t".join(one.values()))

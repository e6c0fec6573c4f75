"""`interlock workflow plan`."""

import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from typing import Annotated

import msgspec

from interlock.cli.act.submit import ParameterOption, PayloadOption
from interlock.cli.draw.format import COLOURS, took, why
from interlock.cli.draw.listing import LENGTH, PIPE, SCREEN, Column, Listing
from interlock.cli.draw.picture import step_name
from interlock.cli.draw.run_tree import branches
from interlock.cli.draw.tables import present
from interlock.cli.shared.options import Flags, JsonOption, argument, option, takes
from interlock.cli.shared.output import WrongUsage
from interlock.cli.shared.payloads import read_one
from interlock.config.sources import load, of_app
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.error import BadValue, UnknownJob
from interlock.error_lines import say
from interlock.fields.duration import seconds
from interlock.fields.field_types import did_you_mean
from interlock.interface.run_view import RunInfo
from interlock.model.workflow import Workflow
from interlock.simulation.workflow_plan import APPROVER, DryRun, try_dry


@takes("app", "lanes")
def command(
    flags: Flags,
    given: Annotated[
        list[str] | None, argument("WORKFLOW PATH", "Id of the workflow, if there are several; files and folders.")
    ] = None,
    payload: PayloadOption = None,
    parameter: ParameterOption = None,
    result: Annotated[list[str] | None, option("STEP=JSON", "Result of this step; others return null.")] = None,
    fail: Annotated[list[str] | None, option("STEP", "Let every attempt of this step fail. May be repeated.")] = None,
    duration: Annotated[
        list[str] | None, option("STEP=DURATION", "Length of this step; without STEP=, of all others. Default: 1s.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Try a workflow dry: the real scheduler on virtual time, with policy and retries, and nothing is done. Steps take
    the time and return the result that you give. Every approval is given. An item is `encode.1`, a step below a step
    `part@probe`.

    Piped: depth in the tree, step, job, state, seconds after the start, seconds it took, verdict and why, separated by
    tabs."""
    paths = [text for text in given or [] if os.path.exists(text)]
    ids = [text for text in given or [] if not os.path.exists(text)]
    settings = flags.given(files=paths or None).resolve().settings
    if not settings.files and settings.app is None:
        raise WrongUsage("PATH: missing; give files and folders with the workflow, or an app with -A")
    with redirect_stdout(sys.stderr):  # the app's own output
        app = of_app(settings.app)
    loaded = load(settings.files, app)
    entries = [CatalogEntry(one.job, one.check) for one in app.definitions.values()] + loaded.entries()
    workflows = {entry.job.id: entry.job.workflow for entry in entries if entry.job.workflow is not None}
    name = _chosen(ids, list(workflows))
    pairs = [_pair("--result", text, "STEP=JSON") for text in result or []]
    times = [text.rpartition("=")[::2] for text in duration or []]
    lengths = {step: seconds(text, f"--duration {step}".rstrip()) for step, text in times}
    dry = DryRun(
        workflow=name,
        payload=read_one(payload, parameter or []),
        start=time.time(),
        results={step: _json(step, text) for step, text in pairs},
        failing=frozenset(fail or ()),
        lengths=lengths,
        length=lengths.pop("", 1.0),
        definitions=app.definitions,
    )
    named: dict[str, Collection[str]] = {"--result": dry.results, "--fail": dry.failing, "--duration": lengths}
    for field, steps in named.items():
        _check_steps(field, steps, workflows[name])
    plain = [msgspec.structs.replace(entry, job=entry.job.unscheduled) for entry in entries]
    lanes = settings.every_lane(loaded.lanes)
    found = try_dry(Catalog(plain, lanes, loaded.policy, tenants=loaded.tenants), dry)
    if workflows[name].is_code:
        _note_unreached(named, found)
    tree = list(branches(found))
    plan = _listing(tree[0][1].run)
    present(
        json,
        lambda: {"runs": found},
        lambda: (f"{branch.depth}\t{plan.line(branch.run)}" for _, branch in tree),
        lambda: plan.table([branch.run for _, branch in tree], leads=[lead for lead, _ in tree]),
    )


def _chosen(ids: Sequence[str], known: Sequence[str]) -> str:
    if len(ids) > 1 or (not ids and len(known) != 1):
        raise WrongUsage(f"WORKFLOW: name one of {', '.join(known) or 'none, because nothing declares a workflow'}")
    if ids and ids[0] not in known:
        raise UnknownJob(ids[0], next(iter(get_close_matches(ids[0], known, 1)), None))
    return ids[0] if ids else known[0]


def _pair(field: str, text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadValue(field, text, f"of the form {form}")
    return name, value


def _json(step: str, text: str) -> bytes:
    try:
        return msgspec.json.encode(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise BadValue(f"--result {step}", text, f"JSON ({error}); quote a text as '\"…\"'") from None


def _note_unreached(named: Mapping[str, Collection[str]], runs: Sequence[RunInfo]) -> None:
    """Say which steps were named that a function has not asked for: nobody knows its steps beforehand."""
    reached = {run.id.partition("@")[2] for run in runs}
    for field, steps in named.items():
        for step in sorted(set(steps) - reached):
            say(f"{field}: the function asked for no step {step!r}{did_you_mean(step, reached)}")


def _check_steps(field: str, steps: Collection[str], workflow: Workflow) -> None:
    for step in () if workflow.is_code else steps:
        name = step.partition("@")[0].partition(".")[0].removeprefix("comp-")
        if name not in workflow.by_id:
            raise BadValue(field, step, f"a step of the workflow{did_you_mean(name, workflow.by_id)}")


def _listing(run: RunInfo) -> Listing[RunInfo]:
    begin, end = run.created_at, run.ended_at or run.created_at
    return Listing(
        "runs",
        "",
        Column("step", lambda step: step_name(step) if "@" in step.id else step.job_id, on=SCREEN),
        Column("step", lambda step: step.id.partition("@")[2], on=PIPE),
        Column("job", "job_id"),
        Column("state", colours=COLOURS),
        Column("after", lambda step: max(0.0, step.created_at - begin), LENGTH),
        Column("took", lambda step: took(step, end), LENGTH),
        Column("verdict", _verdict),
        Column("why", lambda step: why(step), gives_way=True),
    )


def _verdict(run: RunInfo) -> str:
    judged = run.facets.get("policy") or run.facets.get("allowed") or {}
    asked = ", assumed" if (judged.get("approval") or {}).get("by") == APPROVER else ""
    decision = judged.get("decision") or ("allow" if judged else "")
    return f"{decision}: {judged.get('rule') or 'default'}{asked}" if decision else ""

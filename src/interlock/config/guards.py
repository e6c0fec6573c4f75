"""Checks of constraints and actions that look beyond the job: at the environment, and at the other jobs."""

import os
from collections.abc import Collection, Iterator

from interlock.error import shown
from interlock.fields.field_types import did_you_mean
from interlock.model.guard import EVENTS, Action, Check, Hook, is_url
from interlock.model.job import Job


def _parts(job: Job) -> Iterator[tuple[str, Action | Check | Hook]]:
    """Yield every hook, check and action of a job with its path."""
    for name in ("pre_run_hook", "post_run_hook"):
        hook = getattr(job.constraints, name)
        if hook is not None:
            yield f"constraints.{name}", hook
    for place, check in enumerate(job.constraints.checks):
        assert isinstance(check, Check)
        yield f"constraints.checks[{place}]", check
    for event in EVENTS:
        actions = job.actions(event)
        for place, action in enumerate(actions):
            yield event if len(actions) == 1 else f"{event}[{place}]", action


def missing_variables(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the path of each variable that a hook or webhook names and that is missing, with the fault."""
    for path, part in _parts(job):
        for name in ("url_env", "secret_env", "token_env"):
            variable = getattr(part, name, None)
            if variable is None:
                continue
            value = os.environ.get(variable)
            if not value:
                yield f"{path}.{name}", f"{path}.{name}: environment variable {shown(variable)} is not set"
            elif name == "url_env" and not is_url(value):
                yield (
                    f"{path}.{name}",
                    f"{path}.{name}: environment variable {shown(variable)} does not hold an HTTP URL",
                )


def named_jobs(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the jobs that the checks and actions of a job name, with their paths."""
    for path, part in _parts(job):
        if (named := getattr(part, "job", None)) is not None:
            yield f"{path}.job", named


def unknown_jobs(job: Job, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of each job that a check or an action names and that nobody declares, with a warning."""
    for path, named in named_jobs(job):
        if named not in known:
            yield path, f"{path}: {shown(named)} is not declared here{did_you_mean(named, known)}"

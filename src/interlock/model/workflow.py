"""A workflow: a graph of steps. It is part of its job, so a live run keeps the graph that it began with."""

from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec.structs import replace

from interlock.error import BadValue, TooMany
from interlock.fields import field_types as kinds
from interlock.fields.field import Checked, Field, Nested, Several, doc, settable
from interlock.fields.template import Arguments, Condition, Items, Template, expressions
from interlock.model.labels import LABELS
from interlock.model.retry import Retry
from interlock.model.work import JobRun

MOST_STEPS = 200
MOST_ITEMS = 1000
MOST_LEVELS = 16
STEP_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
STEP_WORD = kinds.Word(STEP_NAME, "a name of letters, digits and '_', up to 64 long")
BUILT_IN = "interlock."  # prefix of the ids of built-in jobs
SLEEP, GROUP, PARALLEL, APPROVAL, EVENT, SEND, ROUND, TAKEN_OVER, UNDO_LATER = (
    BUILT_IN + name
    for name in ("sleep", "group", "parallel", "approval", "event", "send", "round", "taken_over", "compensate")
)
APPROVAL_TIMEOUT = 86_400.0  # seconds for which a step waits for an answer unless it says something else
LONGEST_QUESTION = 500
QUESTION = kinds.Text(rf"(?s).{{1,{LONGEST_QUESTION}}}", f"a text of 1 to {LONGEST_QUESTION} characters")
_KINDS = ("job", "run", "workflow", "parallel", "sleep", "until", "approve", "event", "send")
_WITHOUT_JOB = ("parallel", "sleep", "until", "approve", "event", "send")


class Then(StrEnum):
    FAIL = "fail"
    CONTINUE = "continue"


class OnError(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """What follows a step that did not succeed."""

    step: Annotated[str | None, doc("Step that runs then, and only then."), STEP_WORD] = None
    then: Annotated[
        Then, doc("`fail` the workflow, or `continue` as if the step were done."), kinds.Choice(*Then, make=Then)
    ] = Then.FAIL


class _When(kinds.Kind):
    """An instant, checked when the step starts if it is an expression."""

    def check(self, value: Any, place: kinds.FieldPath) -> Any:
        from interlock.model.schedule.schedule import instant  # its module needs fields that this one gives

        return value if isinstance(value, float) else instant(value, str(place))

    def schema(self) -> kinds.Schema:
        return {"type": ["string", "number"]}


class Undo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The compensation of a step: the job that undoes it once it has succeeded."""

    job: str
    arguments: dict[str, Any] | None = None  # templates of `input` and `result`; by default all of both, by name
    labels: dict[str, str] | None = None
    timeout: float | None = None  # seconds within which it must end
    capabilities: tuple[str, ...] = ()  # of the step: its compensation has no others


class Compensate(Checked, frozen=True, kw_only=True, omit_defaults=True, rename={"with_": "with"}):
    """The job that undoes a step, if the step has succeeded and the workflow does not."""

    job: Annotated[str, doc("Job to run."), kinds.JOB_WORD]
    with_: Annotated[
        dict[str, Any] | None,
        doc("Arguments, of `${input}`, those of the step, and `${result}`; by default all of them and `result`."),
        Arguments(),
    ] = None
    labels: Annotated[dict[str, str] | None, doc("Labels of its run."), LABELS] = None
    deadline: Annotated[float | None, doc("Time within which it must end."), kinds.POSITIVE_SPAN] = None


class Approve(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A question to a person."""

    question: Annotated[str, doc("Question; `${…}` stands for a value."), Template(QUESTION)]
    data: Annotated[Any, doc("What the approver must know to answer it."), Template()] = None


class Send(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """An event for another workflow."""

    to: Annotated[str, doc("Run of the workflow, in the same tenant."), Template(kinds.Text(), "the id of a run")]
    name: Annotated[str, doc("Name of the event."), STEP_WORD]
    value: Annotated[Any, doc("Value of the event."), Template()] = None


class NestedWords(Nested):
    """A struct with the fields `with` and `if`, which are words of Python."""

    @property
    def fields(self) -> dict[str, Field]:
        return {
            name.rstrip("_"): replace(field, name=name.rstrip("_")) for name, field in settable(self.struct).items()
        }

    def _made(self, fields: dict[str, Any], place: kinds.FieldPath) -> Checked:
        return super()._made({f"{name}_" if name in ("with", "if") else name: fields[name] for name in fields}, place)


class _Branches(kinds.Kind):
    """Steps and lists of steps, at least one."""

    def check(self, value: Any, place: kinds.FieldPath) -> Any:
        branch = Several(NestedWords(WorkflowStep), MOST_STEPS)
        if not isinstance(value, (list, tuple)) or not value or [] in value or () in value:
            raise BadValue(str(place), value, "a list of branches; each is a step, or a list of steps in order")
        return tuple(kinds.check_all((place.at(index), branch, one) for index, one in enumerate(value)))

    def schema(self) -> kinds.Schema:
        branch = Several(NestedWords(WorkflowStep), MOST_STEPS).schema()
        return {"type": "array", "items": branch, "minItems": 1}


class WorkflowStep(Checked, frozen=True, kw_only=True, omit_defaults=True, rename={"with_": "with", "if_": "if"}):
    """A step of a workflow: exactly one of `job`, `run`, `workflow`, `parallel`, `sleep`, `until`, `approve`,
    `event` and `send`."""

    one_of: ClassVar[tuple[str, ...]] = _KINDS

    id: Annotated[str, doc("Name of the step."), STEP_WORD]
    job: Annotated[str | None, doc("Job to run."), kinds.JOB_WORD] = None
    run: Annotated[JobRun | None, doc("What it does, without a job of its own.")] = None
    workflow: Annotated[str | None, doc("Workflow to run."), kinds.JOB_WORD] = None
    parallel: Annotated[
        tuple[tuple["WorkflowStep", ...], ...] | None,
        doc("Branches that run at once; each is a step, or a list of steps in order."),
        _Branches(),
    ] = None
    sleep: Annotated[
        float | str | None, doc("Time to wait."), Template(kinds.Span(), "a duration, or one expression in `${…}`")
    ] = None
    until: Annotated[
        float | str | None, doc("Instant to wait for."), Template(_When(), "a time, or one expression in `${…}`")
    ] = None
    approve: Annotated[
        Approve | None,
        doc("Question that a person must approve; the result says who did."),
        Nested(Approve, text_for="question"),
    ] = None
    event: Annotated[str | None, doc("Event to wait for; its value is the result."), STEP_WORD] = None
    send: Annotated[Send | None, doc("Event to send to another workflow."), Nested(Send)] = None
    with_: Annotated[dict[str, Any] | None, doc("Arguments; `${…}` stands for a value."), Arguments()] = None
    needs: Annotated[
        tuple[str, ...] | None,
        doc("Steps that must be done first; by default the step before."),
        kinds.Texts(STEP_WORD, expected="a list of steps", make=tuple),
    ] = None
    if_: Annotated[
        str | bool | None,
        doc("Condition; if it is false the step is skipped, and counts as done."),
        Condition(expected="true, false or one expression in `${…}`"),
    ] = None
    for_each: Annotated[
        Any,
        doc("List, or an expression for one: the step runs once for each `${item}`, numbered by `${index}`."),
        Items(expected="a list, or one expression in `${…}`"),
    ] = None
    max_parallel: Annotated[int, doc("Items that run at once."), kinds.Whole(1, MOST_ITEMS)] = 100
    retry: Annotated[Retry | None, doc("Retries of the step, instead of those of its job.")] = None
    timeout: Annotated[
        float | None,
        doc("Time within which the step must end; 24 h for an approval unless given."),
        kinds.POSITIVE_SPAN,
    ] = None
    lane: Annotated[str | None, doc("Lane of the step, instead of that of its job."), kinds.WORD] = None
    on_error: Annotated[
        OnError,
        doc("What follows if it does not succeed: `fail`, `continue`, or a `step` `then` one of these."),
        Nested(OnError, text_for="then"),
    ] = OnError()
    compensate: Annotated[
        Compensate | None, doc("The job that undoes the step."), NestedWords(Compensate, text_for="job")
    ] = None

    @property
    def kind(self) -> str:
        return next(kind for kind in _KINDS if getattr(self, kind) is not None)

    @property
    def is_built_in(self) -> bool:
        """Whether it runs no job."""
        return self.kind in _WITHOUT_JOB

    @property
    def undo(self) -> Undo | None:
        found = self.compensate
        return None if found is None else Undo(found.job, found.with_, found.labels, found.deadline)

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Yield its expressions, each with the path of its field."""
        for name in ("if_", "for_each", "sleep", "until", "with_"):
            yield from expressions(getattr(self, name), name.rstrip("_"))
        if self.approve is not None:
            yield from expressions(self.approve.question, "approve.question")
            yield from expressions(self.approve.data, "approve.data")
        if self.send is not None:
            yield from expressions(self.send.to, "send.to")
            yield from expressions(self.send.value, "send.value")


class Workflow(Checked, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The steps of a workflow, and its result."""

    steps: Annotated[
        tuple[WorkflowStep, ...],
        doc("The steps, in order; each needs the one before unless it has `needs`."),
        Several(NestedWords(WorkflowStep), MOST_STEPS),
    ]
    result: Annotated[Any, doc("Result of the workflow; `${…}` stands for a value."), Template()] = None

    @property
    def is_code(self) -> bool:
        """Whether its author is the function of the app for its job."""
        return not self.steps

    def check(self) -> None:
        if len(self.by_id) > MOST_STEPS:
            raise TooMany("steps", len(self.by_id), MOST_STEPS)

    @cached_property
    def parts(self) -> dict[str, "Workflow"]:
        """Parallel step → the graph of its branches; of those inside others too."""
        found: dict[str, Workflow] = {}
        for step in self.steps:
            if step.parallel is not None:
                found[step.id] = inside = _graph_of(step.parallel)
                found |= inside.parts
        return found

    @cached_property
    def by_id(self) -> dict[str, WorkflowStep]:
        """All steps, those inside parallel steps too."""
        found = {step.id: step for step in self.steps}
        return found | {step.id: step for part in self.parts.values() for step in part.steps}

    @cached_property
    def handlers(self) -> dict[str, list[str]]:
        """Step that runs after an error → the steps whose error it follows."""
        found: dict[str, list[str]] = {}
        for step in self.by_id.values():
            if step.on_error.step is not None:
                found.setdefault(step.on_error.step, []).append(step.id)
        return found

    @cached_property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """Step → the steps that must be done before; without those that run after an error, and those inside others."""
        found: dict[str, tuple[str, ...]] = {}
        before: tuple[str, ...] = ()
        for step in self.steps:
            if step.id not in self.handlers:
                found[step.id] = before if step.needs is None else step.needs
                before = (step.id,)
        return found

    @cached_property
    def around(self) -> dict[str, str]:
        """Step inside a parallel step → that one."""
        return {step.id: name for name, part in self.parts.items() for step in part.steps}

    @cached_property
    def regular(self) -> list[str]:
        """The steps that have ended when the workflow has succeeded: all but those that run after an error."""
        parts = [self.parts[name] for name in self.needs if name in self.parts]
        return [*self.needs, *(name for part in parts for name in part.regular)]


def _graph_of(branches: tuple[tuple[WorkflowStep, ...], ...]) -> Workflow:
    """Return the graph of branches: the first step of each needs nothing before it."""
    after = {step.on_error.step for branch in branches for step in branch}
    steps: list[WorkflowStep] = []
    for branch in branches:
        first = next((step for step in branch if step.id not in after), None)
        steps += [replace(step, needs=()) if step is first and step.needs is None else step for step in branch]
    return Workflow(steps=tuple(steps))


CODE = Workflow(steps=())
"""a workflow whose author is a function"""

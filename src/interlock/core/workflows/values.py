"""The values of a workflow: what `${…}` stands for when a step starts."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from interlock.core.workflows.flow import Flow, StepEnd
from interlock.error import InterlockError
from interlock.fields.secret import MASK, Secret, from_json
from interlock.fields.template import Path, fill, path_of
from interlock.model.run import Run
from interlock.model.state import State
from interlock.policy.expression import Unevaluated
from interlock.policy.value_expression import ROOTS, compiled_value, roots_in, steps_in

STEP_VALUES = ("result", "state", "error")
INPUT = ""  # the payload of the workflow, among the names of its steps


class NoValue(Exception):
    """A template of a step has no value."""


class UnreadValue(Exception):
    """A value is only in the store."""


def references(expressions: Iterable[str]) -> set[str]:
    """Return the steps that expressions name, and `INPUT` if they name the payload."""
    found: set[str] = set()
    for text in expressions:
        path = path_of(text)
        if path is None:
            found |= steps_in(text) | ({INPUT} if "input" in roots_in(text) else set())
        elif path[0] == "input":
            found.add(INPUT)
        elif path[0] == "steps" and len(path) > 1:
            found.add(str(path[1]))
    return found


class Scope:
    """The values that the expressions of a workflow see now."""

    def __init__(self, flow: Flow, ends: Mapping[str, StepEnd]) -> None:
        self._flow, self._ends = flow, ends
        self._decoded: dict[str, Any] = {}
        self.item: dict[str, Any] = {}  # `item` and `index`, for one item of a group

    def fill(self, value: Any, field: str) -> Any:
        """Return a template with its values; raise `NoValue`, or `UnreadValue`."""
        try:
            return fill(value, self._evaluate)
        except (NoValue, Unevaluated) as error:
            raise NoValue(f"{field}: {error}") from None

    def _evaluate(self, expression: str) -> Any:
        path = path_of(expression)
        if path is not None:
            return self._follow(path, expression)
        return _calculated(expression, {name: self._root(name, expression) for name in roots_in(expression)})

    def _root(self, name: str, expression: str) -> Any:
        if name == "input":
            return self._read(INPUT)
        if name == "steps":
            named = (step for step in steps_in(expression) if step in self._ends)
            return {step: {value: self._of_step(step, value) for value in STEP_VALUES} for step in named}
        if name == "run":
            return {"id": self._flow.run.id, "tenant": self._flow.run.tenant}
        return self.item.get(name)

    def _follow(self, path: Path, expression: str) -> Any:
        value: Any
        rest = path[1:]
        if path[0] == "steps":
            if len(path) < 3 or path[1] not in self._ends or path[2] not in STEP_VALUES:
                raise NoValue(f"${{{expression}}} has no value: use steps.STEP.result, .state or .error")
            value, rest = self._of_step(str(path[1]), str(path[2])), path[3:]
        elif path[0] in ROOTS and path[0] != "result":
            value = self._root(str(path[0]), expression)
        else:
            raise NoValue(f"${{{expression}}} has no value: it begins with none of {', '.join(ROOTS)}")
        return _walked(value, rest, expression)

    def _of_step(self, name: str, value: str) -> Any:
        end = self._ends[name]
        if value == "result":
            return self._read(name)
        return str(end.state) if value == "state" else end.error or None

    def _read(self, name: str) -> Any:
        if name not in self._decoded:
            flow = self._flow
            found = flow.read.get(flow.waits.get(name, name))
            if found is None and name == INPUT:
                found = flow.run.payload
            elif found is None:
                found = self._ends[name].result
            if found is None and (name == INPUT or self._ends[name].is_stored):
                raise UnreadValue
            self._decoded[name] = None if found is None else from_json(msgspec.json.decode(found))
        return self._decoded[name]


class UndoScope:
    """The values that the arguments of a compensation see: those of its step, and the result."""

    def __init__(self, given: dict[str, Any], step: Run) -> None:
        self._given, self._step = given, step

    def arguments(self, templates: dict[str, Any] | None) -> dict[str, Any]:
        """Return the arguments of the compensation; raise `NoValue`."""
        if templates is None:
            return {**self._given, "result": self._root("result")}
        found: dict[str, Any] = fill(templates, self._evaluate)
        return found

    def _root(self, name: str) -> Any:
        if name == "input":
            return self._given
        if name != "result":
            raise NoValue(f"${{{name}}} has no value in a compensation: use input or result")
        if self._step.state is State.OUTPUT_QUARANTINED and self._step.shown_result is None:
            raise NoValue("result: the output policy withholds it")
        return from_json(msgspec.json.decode(self._step.shown_result or b"null"))

    def _evaluate(self, expression: str) -> Any:
        path = path_of(expression)
        if path is None:
            return _calculated(expression, {name: self._root(name) for name in roots_in(expression)})
        return _walked(self._root(str(path[0])), path[1:], expression)


def _walked(value: Any, rest: Path, expression: str) -> Any:
    for part in rest:
        fits = isinstance(value, dict if isinstance(part, str) else list)
        try:
            if not fits:
                raise KeyError(part)
            value = value[part]
        except (KeyError, IndexError):
            raise NoValue(f"${{{expression}}} has no value: there is no {part!r}") from None
    return value


def _calculated(expression: str, roots: dict[str, Any]) -> Any:
    try:
        return compiled_value(expression)(_masked(roots))
    except (Unevaluated, InterlockError) as error:
        raise NoValue(f"${{{expression}}} has no value: {error}") from None


def _masked(value: Any) -> Any:
    """Return a value without its secrets, as CEL sees it."""
    if type(value) is dict:
        return {name: _masked(item) for name, item in value.items()}
    if type(value) is list:
        return [_masked(item) for item in value]
    return MASK if type(value) is Secret else value

"""What files or Python declare, and the tree of services."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from interlock.config.documents import Document, Faults, Spot
from interlock.config.plain_yaml import DEEPEST
from interlock.error import shown
from interlock.fields.field import Checked, Field, read_fields, settable
from interlock.fields.field_types import NAME_RULE, Word, did_you_mean
from interlock.model.job import NAME
from interlock.supervision.spec import Child, Group

T = TypeVar("T")


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A service or group. In the tree, the members of a group are in order of declaration."""

    name: str
    is_group: bool
    child: Child | None  # None if it has a fault; others may still refer to it. A group has no children yet.
    group: str | None  # its group
    spot: Spot
    group_spot: Spot  # place of its `group`
    function: Callable[..., Any] | None = None
    """function of an app; its command is made once the app's import path is known"""


class NamedDocument(msgspec.Struct, Generic[T], frozen=True):
    """A job, lane, pool, tenant or policy of a document."""

    document: Document
    name: str
    value: T | None  # None if it has a fault

    @property
    def spot(self) -> Spot:
        return self.document.spot("id")


def spec_kind(
    what: str, spec: type[Checked], everybody: str = ""
) -> tuple[Mapping[str, Field], Callable[[Document], Checked]]:
    """Return the fields of documents that consist of a name and a spec, and the function that reads the spec. One
    document may be for `everybody` without one."""
    pattern, rule = NAME.pattern, NAME_RULE.format(64)
    if everybody:
        pattern, rule = f"{pattern}|{re.escape(everybody)}", f"{rule}, or {everybody!r}"
        what += f", or `{everybody}` for all without a document"
    name = Field(name="id", kind=Word(pattern, rule), description=f"Name of the {what}.")
    fields = {"id": name, **settable(spec)}

    def read(document: Document) -> Checked:
        found = read_fields(fields, document.values, document.place)
        del found["id"]
        return spec(**found)

    return fields, read


def check_names(declared: Iterable[tuple[str, Spot]], faults: Faults) -> None:
    """Refuse a name declared twice: commands identify jobs, services and groups by name alone."""
    known: dict[str, Spot] = {}
    for name, spot in declared:
        first = known.setdefault(name, spot)
        if first is not spot:
            faults.add(spot, f"id: {shown(name)} is declared twice, first at {first}")


def tree_of(declared: Sequence[Declared], faults: Faults) -> list[Child]:
    """Return the children at the top, each group with its members; raise all faults, earlier ones included."""
    known: dict[str, Declared] = {}
    for member in declared:
        known.setdefault(member.name, member)
    parents = {member.name: member.group for member in known.values() if member.is_group and member.group is not None}
    _check_groups(declared, known, faults)
    _check_cycles(parents, known, faults)
    faults.check()
    below: dict[str | None, list[Declared]] = {}
    for member in declared:
        below.setdefault(member.group, []).append(member)
    return list(_children(None, below))


def _children(group: str | None, below: Mapping[str | None, Sequence[Declared]]) -> Iterator[Child]:
    for member in below.get(group, ()):
        if isinstance(member.child, Group):
            yield msgspec.structs.replace(member.child, children=tuple(_children(member.name, below)))
        elif member.child is not None:
            yield member.child


def _check_groups(declared: Sequence[Declared], known: Mapping[str, Declared], faults: Faults) -> None:
    groups = [member.name for member in known.values() if member.is_group]
    for member in declared:
        if member.group is None or member.group in groups:
            continue
        if member.group in known:
            faults.add(member.group_spot, f"group: {shown(member.group)} is a service, not a group")
        elif not faults.incomplete:
            hint = did_you_mean(member.group, groups)
            faults.add(member.group_spot, f"group: {shown(member.group)} is not declared{hint}")


def _check_cycles(parents: Mapping[str, str], known: Mapping[str, Declared], faults: Faults) -> None:
    """Follow each group to the top, once."""
    depths: dict[str, int] = {}
    for name in parents:
        way: list[str] = []
        above: str | None = name
        while above is not None and above not in depths and above not in way:
            way.append(above)
            above = parents.get(above)
        if above is not None and above in way:
            cycle = way[way.index(above) :]
            names = " in ".join([*cycle, cycle[0]])
            faults.add(known[cycle[0]].group_spot, f"group: {shown(cycle[1 % len(cycle)])} makes a cycle: {names}")
        for member in reversed(way):
            depths[member] = depths.get(parents.get(member, ""), 0) + 1
            if depths[member] == DEEPEST + 1:
                faults.add(known[member].group_spot, f"group: nested more than {DEEPEST} deep")

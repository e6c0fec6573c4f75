"""The listings of the command line in TypeScript: they declare the columns of the dashboard's tables too."""

import json
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from interlock.cli import act, look
from interlock.cli.draw import listing
from interlock.cli.draw.listing import Column, Form, Listing

FORMS = {form: name.lower() for name, form in vars(listing).items() if isinstance(form, Form)}


def found() -> dict[str, Listing[Any]]:
    names = [f"{package.__name__}.{file.name}" for package in (act, look) for file in iter_modules(package.__path__)]
    values = [value for name in names for value in vars(import_module(name)).values()]
    return {value.name: value for value in values if isinstance(value, Listing)}


def text() -> str:
    return "\n".join(f"export const {name} = {_listing(one)} as const\n" for name, one in sorted(found().items()))


def _listing(one: Listing[Any]) -> str:
    columns = "\n".join(f"    {json.dumps(_column(column))}," for column in one.columns)
    return f"{{\n  empty: {json.dumps(one.empty)},\n  columns: [\n{columns}\n  ],\n}}"


def _column(column: Column) -> dict[str, Any]:
    """A column whose value the command line works out has no field: a page draws it in its own way."""
    return {
        "title": column.title,
        "field": None if callable(column.value) else column.value or column.title,
        "form": FORMS.get(column.form, "own"),
        "right": column.form.right,
        "spare": column.spare,
        "wide": column.gives_way,
    }

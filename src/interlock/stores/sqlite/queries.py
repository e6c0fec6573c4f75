"""The statements of queries.sql by name, with the columns of `Run` filled in."""

import re
from importlib.resources import files

from interlock.model.run import Run

COLUMNS = Run.__struct_fields__
CHANGING = COLUMNS[Run.CONSTANT :]


def _read() -> dict[str, str]:
    text = files("interlock.stores.sqlite").joinpath("queries.sql").read_text()
    fill = {
        "columns": ", ".join(COLUMNS),
        "places": ", ".join("?" * len(COLUMNS)),
        "changing": ", ".join(CHANGING),
        "changing_places": ", ".join("?" * len(CHANGING)),
    }
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)
    return {
        name: re.sub(r"\{(\w+)\}", lambda match: fill[match[1]], body.strip())
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


QUERIES = _read()


def migrations() -> list[str]:
    """The scripts that make the schema, in order; the number of them is the schema's version."""
    folder = files("interlock.stores.sqlite").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [folder.joinpath(name).read_text() for name in names]

"""The JSON Schemas of the settings file and of documents."""

from typing import Any

from interlock.config.declarations import NEWEST_RUN
from interlock.config.documents import FIELDS
from interlock.config.fields import MEMORY
from interlock.config.job_documents import RUNS as JOB_RUNS
from interlock.config.service_documents import CONTAINER, RUNS
from interlock.config.settings import DEFAULTS, SETTINGS
from interlock.core.state import DEFAULT_LANES
from interlock.model import schedule
from interlock.model.job import JOB_ID
from interlock.model.job import NAME as LANE
from interlock.model.work import FUNCTION
from interlock.supervision import spec

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Schema:
    properties: Schema = {}
    for name, setting in SETTINGS.items():
        default = DEFAULT_LANES if name == "lanes" else DEFAULTS[name]
        properties[name] = {"description": setting.help, **setting.kind.schema(), "default": default}
    return {
        "$schema": DIALECT,
        "$id": "urn:interlock:settings",
        "title": "interlock.yaml",
        "description": "Settings of Interlock. Flags and INTERLOCK_* variables override what the file says.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def documents_schema() -> Schema:
    """Of one document, whichever kind it is."""
    required = {"Service": ["id", "run"], "Group": ["id"], "Job": ["id", "run"]}
    kinds = [
        {
            "title": kind,
            **_mapping(
                {"kind": {"const": kind}} | {name: (JOB if kind == "Job" else DOCUMENT)[name] for name in fields},
                ["kind", *required[kind]],
            ),
        }
        for kind, fields in FIELDS.items()
    ]
    return {
        "$schema": DIALECT,
        "$id": "urn:interlock:documents",
        "title": "Documents of Interlock",
        "description": "What a file that is given to 'interlock up' may have, one of these in each document.",
        "oneOf": kinds,
    }


def _mapping(properties: Schema, required: list[str] | None = None) -> Schema:
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": required} if required else {})


def _or_nothing(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _is_given(name: str, value: Schema) -> Schema:
    """Null is as good as left out."""
    return {"required": [name], "properties": {name: value or {"not": {"type": "null"}}}}


def _probe(properties: Schema, kinds: tuple[str, ...]) -> Schema:
    one_of = [{"required": [kind]} for kind in kinds]
    return _or_nothing(_mapping(properties) | {"oneOf": one_of})


TEXT: Schema = {"type": ["string", "number", "boolean"]}
"""a number or a truth value is the text it is written as"""
TEXTS: Schema = {"type": "array", "items": TEXT}
DURATION: Schema = {
    "anyOf": [{"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"}, {"type": "number", "minimum": 0}]
}
COUNT: Schema = {"type": "integer", "minimum": 1}
COUNT_OR_NONE: Schema = {"type": "integer", "minimum": 0}
PAIRS: Schema = {"type": "array", "items": {"type": "string", "pattern": ":"}}
NAME: Schema = {"anyOf": [{"type": "string", "pattern": f"^{spec.NAME.pattern}$"}, {"type": ["integer", "boolean"]}]}
PROBES: Schema = {
    "http": {"type": "string", "pattern": "^http://"},
    "tcp": {"type": "string", "pattern": ":[0-9]+$"},
    "log": TEXT | {"pattern": "[^*]"},
    "delay": DURATION,
}

CONTAINER_FIELDS: Schema = {
    "image": TEXT,
    "command": TEXTS,
    "volumes": PAIRS,
    "ports": PAIRS,
    "network": TEXT,
    "user": TEXT,
    "memory": MEMORY.schema(),
    "cpus": {"type": "number", "minimum": 0.01, "maximum": 10_000},
    "engine": TEXT,
}

RUN_FIELDS: Schema = {
    "process": {**TEXTS, "minItems": 1},
    "shell": TEXT | {"pattern": r"\S"},
    "function": {"type": "string", "pattern": f"^(?:{FUNCTION.pattern})$"},
    "container": {
        "anyOf": [{"type": "string"}, _mapping({name: CONTAINER_FIELDS[name] for name in CONTAINER}, ["image"])]
    },
}


def _run(ways: tuple[str, ...]) -> Schema:
    return _mapping({name: RUN_FIELDS[name] for name in ways}) | {"minProperties": 1, "maxProperties": 1}


DOCUMENT: Schema = {
    "id": NAME | {"not": {"const": NEWEST_RUN}},
    "group": _or_nothing(NAME),
    "run": _run(RUNS),
    "env": {"type": "object", "additionalProperties": _or_nothing(TEXT)},
    "cwd": _or_nothing(TEXT),
    "strategy": {"enum": list(spec.Strategy), "default": "one_for_one"},
    "restart": {"enum": list(spec.Restart), "default": "always"},
    "stop_timeout": DURATION,
    "backoff": _mapping(
        {
            "initial": DURATION,
            "multiplier": {"type": "number", "minimum": 1, "maximum": 1000},
            "max": DURATION,
            "jitter": {"type": "number", "minimum": 0, "maximum": spec.MOST_JITTER},
            "reset_after": DURATION,
        }
    ),
    "budget": _mapping(
        {
            "max_restarts": {"type": "integer", "minimum": 0},
            "max_duration": DURATION,
            "on_exhausted": {"enum": list(spec.OnExhausted), "default": "stop_child"},
        }
    ),
    "ready": _probe(PROBES | {"timeout": DURATION}, spec.Ready.kinds),
    "alive": _probe(
        {kind: PROBES[kind] for kind in spec.Alive.kinds} | {"every": DURATION, "timeout": DURATION, "failures": COUNT},
        spec.Alive.kinds,
    ),
    "limits": _mapping({"memory": MEMORY.schema(), "files": COUNT, "processes": COUNT, "cpu": DURATION}),
}
"""every field of services and groups"""

SCHEDULE: Schema = {
    "once": {"type": "boolean"},
    "at": _or_nothing({"type": ["string", "number"]}),
    "every": _or_nothing(
        {"anyOf": [DURATION["anyOf"][0], {"type": "number", "minimum": schedule.SHORTEST}]},
    ),
    "cron": _or_nothing({"type": "string", "pattern": r"^\s*(\S+\s+){4}\S+\s*$"}),
    "tz": _or_nothing({"type": "string"}),
    "wait": DURATION,
    "jitter": DURATION,
    "catch_up": {"enum": list(schedule.CatchUp), "default": "latest"},
    "catch_up_window": DURATION,
    "catch_up_max": {"type": "integer", "minimum": 0, "maximum": schedule.MOST_CATCH_UP},
    "keep": {"type": "boolean", "default": False},
}
"""in the order of its struct"""

JOB: Schema = {
    "id": {"anyOf": [{"type": "string", "pattern": f"^{JOB_ID.pattern}$"}, {"type": ["integer", "boolean"]}]},
    "schedule": _or_nothing(
        _mapping(SCHEDULE)
        | {"oneOf": [_is_given(kind, {"const": True} if kind == "once" else {}) for kind in schedule.KINDS]}
    ),
    "run": _run(JOB_RUNS),
    "payload": _or_nothing({"type": "object"}),
    "lane": {"anyOf": [{"type": "string", "pattern": f"^{LANE.pattern}$"}, {"type": ["integer", "boolean"]}]},
    "retry": _mapping(
        {
            "max_retries": COUNT_OR_NONE,
            "initial_delay": DURATION,
            "multiplier": {"type": "number", "minimum": 1, "maximum": 1000},
            "max_delay": DURATION,
            "jitter": {"type": "number", "minimum": 0, "maximum": 1},
        }
    ),
    "deadline": _or_nothing(DURATION),
    "max_runtime": _or_nothing(DURATION),
    "max_runtime_per_attempt": {"type": "boolean", "default": False},
    "max_crashes": COUNT_OR_NONE,
    "grace": DURATION,
    "constraints": _mapping({"max_concurrent_runs": COUNT}),
    "env": DOCUMENT["env"],
    "cwd": DOCUMENT["cwd"],
    "limits": DOCUMENT["limits"],
    "stdin": {"type": "boolean", "default": True},
}
"""every field of jobs"""

if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(documents_schema(), indent=2) + "\n")

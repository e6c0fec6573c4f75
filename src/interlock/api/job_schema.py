"""The schemas of a job as it is put over HTTP, made from the declaration of its fields. The reader of documents reads
it too, and reports every fault at once."""

import json
import re
from typing import Any

from interlock.model.bodies import MOST_JOBS
from interlock.model.field import definitions, object_schema
from interlock.model.job import JOB_FIELDS


def job_schemas() -> dict[str, Any]:
    """Return the components JobBody, NamedJobBody, JobsBody, and those of the parts of a job."""
    fields = JOB_FIELDS.values()
    found: dict[str, Any] = {
        "JobBody": {"description": "A job.", **object_schema(one for one in fields if one.name != "id")},
        "NamedJobBody": {"description": "A job with its id.", **object_schema(fields)},
        **{f"{name}Body": schema for name, schema in definitions(fields).items()},
    }
    text = re.sub(r"#/\$defs/(\w+)", r"#/components/schemas/\1Body", json.dumps(found))
    jobs = {"type": "array", "items": {"$ref": "#/components/schemas/NamedJobBody"}, "minItems": 1}
    described = {"description": "Jobs, each with its `id`.", **jobs, "maxItems": MOST_JOBS}
    listed = {"type": "object", "properties": {"jobs": described}, "required": ["jobs"], "additionalProperties": False}
    return {"JobsBody": listed, **json.loads(text)}

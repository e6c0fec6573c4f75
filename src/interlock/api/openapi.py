"""The description of the interface: the routes as the framework reads them, the types as msgspec describes them, and
what neither can know: what the routes read by themselves, and how they fail."""

from typing import Any

import msgspec
from litestar import Litestar

from interlock.api import job_bodies
from interlock.api.auth import OPEN
from interlock.api.cursors import EVENTS, FORM, JOB_FORM, JOBS, LOGS, RUNS, SERVICE_LOGS, START
from interlock.api.meanings import FIELDS, PARAMETERS
from interlock.api.problems import MEDIA_TYPE
from interlock.api.runs import LONGEST_BATCH_KEY
from interlock.model import bodies, child_info, job_info, reload_report, run_view
from interlock.model.child_info import ServiceAction
from interlock.model.request import LONGEST_KEY
from interlock.model.run_action import RunAction

REFERENCE = "#/components/schemas/{name}"

BODIES: dict[str, tuple[str, bool]] = {
    "submit": ("NewRunBody", True),
    "submit_many": ("BatchBody", True),
    **dict.fromkeys(RunAction, ("ActionBody", False)),
    **{f"{action}_many": ("BulkBody", True) for action in RunAction},
    "trigger": ("TriggerBody", False),
    "backfill": ("BackfillBody", True),
    "put_job": ("JobBody", True),
    "put_jobs": ("JobsBody", True),
}
"""operation → what it takes, and whether it must be given"""

TYPES = (
    bodies.NewRunBody,
    bodies.BatchBody,
    bodies.ActionBody,
    bodies.BulkBody,
    bodies.TriggerBody,
    bodies.BackfillBody,
    job_bodies.JobBody,
    job_bodies.JobsBody,
    bodies.Submitted,
    bodies.SubmittedBatch,
    bodies.ActedOn,
    bodies.Defined,
    bodies.ServiceList,
    bodies.Readiness,
    bodies.Health,
    bodies.ProblemDetails,
    run_view.RunDetail,
    run_view.RunPage,
    run_view.BulkInfo,
    run_view.History,
    run_view.LogPage,
    job_info.JobPage,
    job_info.JobInfo,
    job_info.JobLog,
    job_info.FireTimes,
    job_info.Timetable,
    job_info.Backfilled,
    run_view.ServiceLogPage,
    child_info.ChildInfo,
    reload_report.Reloaded,
    run_view.RunEvent,
    run_view.LogEvent,
    run_view.ProgressEvent,
    run_view.ServiceEvent,
    run_view.ServiceLogEvent,
    run_view.GapEvent,
    run_view.HelloEvent,
)

KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes it safe to repeat the request: the same key in a tenant is the same run.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}
BATCH_KEY = {
    **KEY,
    "description": "Makes it safe to repeat the request: run number i, from 0, gets this, a slash and i as its key.",
    "schema": {**KEY["schema"], "maxLength": LONGEST_BATCH_KEY},
}
EVENT_ID = f"^({START}|{FORM.format(kind=EVENTS)})$"
LAST_EVENT = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that is known; what is stored after it is told first.",
    "schema": {"type": "string", "pattern": EVENT_ID},
}
BULK_KEY = {**KEY, "description": "Makes it safe to repeat the request: the same key in a tenant is the same request."}
HEADERS = {
    "submit": [KEY],
    "trigger": [KEY],
    "submit_many": [BATCH_KEY],
    **{f"{action}_many": [BULK_KEY] for action in RunAction},
    "events": [LAST_EVENT],
}
WAIT = r"^([0-9]{1,5}(\.[0-9]{1,6})?ms|([0-9]{1,2}|[12][0-9]{2})(\.[0-9]{1,6})?s|[0-4](\.[0-9]{1,6})?m|300s|5m)$"
"""up to five minutes"""
JOB_ID = f"^{JOB_FORM.removeprefix(JOBS)}$"
SPAN = r"^([1-9][0-9]{0,5}s|[1-9][0-9]{0,3}m|[1-9][0-9]?h|([1-9]|[12][0-9]|3[01])d)$"
"""up to 31 days"""
PATTERNS = {
    ("submit", "wait"): WAIT,
    ("trigger", "wait"): WAIT,
    ("timetable", "for"): SPAN,
    ("run", "wait"): WAIT,
    ("service_logs", "wait"): WAIT,
    ("events", "after"): EVENT_ID,
    ("runs", "cursor"): f"^{FORM.format(kind=RUNS)}$",
    ("put_job", "job_id"): JOB_ID,
    ("jobs", "cursor"): f"^{JOB_FORM}$",
    ("logs", "cursor"): f"^{FORM.format(kind=LOGS)}$",
    ("service_logs", "cursor"): f"^{FORM.format(kind=SERVICE_LOGS)}$",
}
"""(operation, parameter) → its form, where the code checks that by itself"""
LEAST = {"since": 0, "until": 0}
"""limits of zero, which the framework leaves out"""

ACTIONS = tuple(f"{action}_service" for action in ServiceAction)

OK: dict[str, dict[int, tuple[str, str, str | None]]] = {
    "submit": {
        201: ("It is durable.", "application/json", "Submitted"),
        200: ("With `wait`: the run, ended or as it stands.", "application/json", "RunDetail"),
    },
    "submit_many": {201: ("All of them are durable.", "application/json", "SubmittedBatch")},
    "runs": {200: ("A page of runs.", "application/json", "RunPage")},
    "run": {200: ("The run.", "application/json", "RunDetail")},
    **{action: {200: ("The state it has now.", "application/json", "ActedOn")} for action in RunAction},
    **{f"{one}_many": {202: ("It is durable, and under way.", "application/json", "BulkInfo")} for one in RunAction},
    "bulk": {200: ("The request.", "application/json", "BulkInfo")},
    "history": {200: ("Its history.", "application/json", "History")},
    "logs": {200: ("A page of its log.", "application/json", "LogPage")},
    "jobs": {200: ("A page of jobs.", "application/json", "JobPage")},
    "job": {200: ("The job.", "application/json", "JobInfo")},
    "job_log": {200: ("Its runs.", "application/json", "JobLog")},
    "next_times": {200: ("Its times.", "application/json", "FireTimes")},
    "schedule_times": {200: ("Its times.", "application/json", "FireTimes")},
    "timetable": {200: ("What fires.", "application/json", "Timetable")},
    "trigger": {
        201: ("It is durable.", "application/json", "Submitted"),
        200: ("With `wait`: the run, ended or as it stands.", "application/json", "RunDetail"),
    },
    "pause": {200: ("The job as it stands then.", "application/json", "JobInfo")},
    "resume": {200: ("The job as it stands then.", "application/json", "JobInfo")},
    "backfill": {200: ("Its runs.", "application/json", "Backfilled")},
    "put_job": {200: ("The job as it stands then.", "application/json", "JobInfo")},
    "put_jobs": {200: ("All of them are defined.", "application/json", "Defined")},
    "delete_job": {200: ("The job as it was.", "application/json", "JobInfo")},
    "tree": {200: ("The top, with everything below it.", "application/json", "ChildInfo")},
    "services": {200: ("All of them.", "application/json", "ServiceList")},
    "service": {200: ("The service.", "application/json", "ChildInfo")},
    "service_logs": {200: ("A page of its log.", "application/json", "ServiceLogPage")},
    "reload": {200: ("What has changed.", "application/json", "Reloaded")},
    **{one: {200: ("The service as it stands then.", "application/json", "ChildInfo")} for one in ACTIONS},
    "events": {200: ("The stream; it does not end by itself.", "text/event-stream", None)},
    "healthz": {200: ("It is.", "application/json", "Health")},
    "readyz": {
        200: ("It can.", "application/json", "Readiness"),
        503: ("It cannot; the checks say why.", "application/json", "Readiness"),
    },
    "metrics": {200: ("In Prometheus' text format.", "text/plain", None)},
    "openapi": {200: ("OpenAPI 3.1.", "application/json", None)},
}

OF_A_RUN = ("run", *RunAction, "history", "logs")
"""operations that take the id of a run"""

PROBLEMS = {
    400: "Something in the request is not valid; `detail` names it.",
    401: "A token is needed.",
    403: "Not for this role, tenant, origin or host.",
    404: "No such run.",
    408: "The request did not arrive in time.",
    409: "The idempotency key was used for something else.",
    413: "Too large.",
    415: "The body is not `application/json`.",
    422: "There are faults in the files; `faults` lists them.",
    431: "The head is too large.",
    500: "A fault of the server.",
    503: "Not now; nothing was changed. Try again.",
}
OF_KIND = {
    "services": {404: "No such service.", 409: "Not possible as the service stands."},
    "jobs": {
        404: "No such job.",
        409: "Not possible as the job stands.",
        422: "There are faults in the job; `faults` lists them.",
    },
}
"""the same where it is these that are asked for"""
OF_OPERATION = {"trigger": {409: PROBLEMS[409]}, "bulk": {404: "No such request."}}
EVERYWHERE = (400, 401, 403, 408, 431, 500, 503)
FURTHER = {
    "submit": (404, 409, 413, 415),
    "submit_many": (409, 413, 415),
    "run": (404,),
    **{str(action): (404, 413, 415) for action in RunAction},
    **{f"{action}_many": (409, 413, 415) for action in RunAction},
    "bulk": (404,),
    "history": (404,),
    "logs": (404,),
    **dict.fromkeys(("job", "job_log"), (404,)),
    "next_times": (404, 409),
    "trigger": (404, 409, 413, 415),
    **dict.fromkeys(("pause", "resume", "delete_job"), (404, 409)),
    "backfill": (404, 409, 413, 415),
    "put_job": (404, 409, 413, 415, 422),
    "put_jobs": (409, 413, 415, 422),
    "service": (404,),
    "service_logs": (404,),
    **dict.fromkeys(ACTIONS, (404, 409)),
    "reload": (422,),
}


def document(app: Litestar, secured: bool) -> dict[str, Any]:
    described: dict[str, Any] = app.openapi_schema.to_schema()
    _, schemas = msgspec.json.schema_components(TYPES, ref_template=REFERENCE)
    described["openapi"] = "3.1.0"
    described["info"]["description"] = (
        "Submit runs, watch them, stop them; have jobs run on time; keep services up. Times are seconds since 1970. "
        "Errors are problem details (RFC 9457) with a stable `code`."
    )
    described["components"] = {
        "schemas": schemas,
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    for name, schema in schemas.items():
        for field, found in schema.get("properties", {}).items():
            if name in FIELDS:
                found.setdefault("description", FIELDS[name][field])
    for path, operations in described["paths"].items():
        for operation in operations.values():
            _complete(operation)
            if secured and path not in OPEN:
                operation["security"] = [{"bearer": []}]
    return described


def _complete(operation: dict[str, Any]) -> None:
    name = operation["operationId"]
    operation.pop("deprecated", None)
    parameters = [_parameter(name, one) for one in operation.get("parameters", ())]
    operation["parameters"] = parameters + HEADERS.get(name, [])
    if name in BODIES:
        kind, required = BODIES[name]
        content = {"application/json": {"schema": {"$ref": REFERENCE.format(name=kind)}}}
        operation["requestBody"] = {"required": required, "content": content}
    problem = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="ProblemDetails")}}}
    texts = PROBLEMS | OF_KIND.get(operation["tags"][0], {}) | OF_OPERATION.get(name, {})
    responses: dict[str, Any] = {
        str(code): {"description": texts[code], "content": problem}
        for code in sorted({*EVERYWHERE, *FURTHER.get(name, ())})
    }
    for code, (text, media_type, answer) in OK[name].items():
        status = str(code)
        schema = {"type": "string"} if media_type != "application/json" else {"type": "object"}
        if answer is not None:
            schema = {"$ref": REFERENCE.format(name=answer)}
        content = {media_type: {"schema": schema}}
        if status in responses:
            content |= problem
        responses[status] = {"description": text, "content": content}
    if name in ("submit", "trigger"):
        for found in ("200", "201"):
            responses[found]["headers"] = {"Location": {"schema": {"type": "string"}}}
            responses[found]["links"] = {
                other: {"operationId": other, "parameters": {"run_id": "$response.body#/id"}} for other in OF_A_RUN
            }
    operation["responses"] = dict(sorted(responses.items()))


def _parameter(operation: str, given: dict[str, Any]) -> dict[str, Any]:
    """A parameter without the alternative of being null, which cannot be said in a query."""
    schema = dict(given["schema"])
    schema.pop("description", None)
    kinds = [one for one in schema.pop("oneOf", ()) if one != {"type": "null"}]
    schema = {**(kinds[0] if kinds else {}), **schema}
    if given["name"] in LEAST:
        schema["minimum"] = LEAST[given["name"]]
    if (operation, given["name"]) in PATTERNS:
        schema["pattern"] = PATTERNS[operation, given["name"]]
    kept = {"name": given["name"], "in": given["in"], "required": given["required"], "schema": schema}
    kept["description"] = given.get("description") or PARAMETERS[given["name"]]
    return kept

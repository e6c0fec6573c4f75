"""Every resource that is listed, and what is done with one of it."""

from interlock.model.state import State
from tests.helpers.dead import POISON
from tests.helpers.judged import ASKS
from tests.helpers.owed import DELIVERED, FAILED, OTHER, PENDING
from tests.resources.resource import Act, Filter, Resource
from tests.resources.seeds import JOBS, Seeds

LATER = "2090-01-01T00:00:00Z"
ONE_TENANT = ("chief", "clerk", "guest", "judge", "porter", "stranger")
"""the tokens that see one tenant"""
CANNOT_OPERATE = ("guest", "judge", "watchman")
CANNOT_CHANGE = (*ONE_TENANT, "watchman")
"""the tokens that may not change what belongs to all tenants"""


def bad_pages(cursor: str, unknown: str = "odd", called: str = "limit") -> list[Filter]:
    """Questions about pages that every list refuses; a command follows the pages itself."""
    cases = [Filter({"limit": limit}, ["bad_value"], (), {}) for limit in (1001, "x", -1)]
    cases.append(Filter({"limit": 0}, ["bad_value"], call={called: 0} if called else {}))
    cases.append(Filter({"cursor": cursor}, ["bad_cursor"], (), {}))
    return [*cases, Filter({unknown: "x"}, ["unknown_field"], (), {})]


def resources(seeds: Seeds) -> dict[str, Resource]:
    return {
        "runs": runs(seeds),
        "jobs": jobs(),
        "workflows": workflows(seeds),
        "approvals": approvals(seeds),
        "audit": audit(),
        "deliveries": deliveries(),
        "letters": letters(),
        "sessions": sessions(),
        "lanes": lanes(),
        "workers": workers(seeds.worker),
        "pools": pools(),
        "tenants": tenants(),
        "services": services(),
    }


NAMES = [
    *("runs", "jobs", "workflows", "approvals", "audit", "deliveries", "letters"),
    *("sessions", "lanes", "workers", "pools", "tenants", "services"),
]


def runs(seeds: Seeds) -> Resource:
    red, blue = seeds.runs["red"], seeds.runs["blue"]
    ended, other, first = red
    every = [*blue, *red]
    path = "/{}"
    return Resource(
        path="/api/v1/runs",
        rows="runs",
        call="runs",
        command=("runs",),
        seed=seeds.runs,
        order=every,
        filters=[
            Filter({"job": "hold.thread"}, [other]),
            Filter({"session": "r1"}, [ended, first]),
            Filter({"lane": "team"}, every),
            Filter({"lane": "main"}, []),
            Filter({"tenant": "blue"}, blue),
            Filter({"state": "prerun"}, [*blue, other, first], call={"state": ["prerun"]}),
            Filter(
                {"state": ["prerun", "failed", "succeeded"]},
                every,
                ("--state", "prerun", "--state", "failed", "--state", "succeeded"),
                {"state": [State.PRERUN, "failed", "succeeded"]},
            ),
            Filter({"live": "true"}, [*blue, other, first], ("--live",), {"live": True}),
            Filter({"live": "false"}, [ended], ("--ended",), {"live": False}),
            Filter({"since": LATER}, []),
            Filter({"since": seeds.middle}, [*blue, ended]),
            Filter({"until": seeds.middle}, [other, first], ()),
            Filter({"job": "echo", "state": "failed"}, []),
            Filter({"tenant": "*"}, []),
            Filter({"root": first}, []),
            Filter({"parent": first}, []),
            Filter({"live": "true", "session": "r1", "job": "echo", "lane": "team"}, [first], (), {}),
            Filter({"job": "*"}, []),
        ],
        bad=[
            *bad_pages("x"),
            Filter({"state": "lost"}, ["bad_value"], call={"state": ["lost"]}),
            Filter({"since": "soon"}, ["bad_value"]),
            Filter({"live": "maybe"}, ["bad_value"], (), {}),
        ],
        unknown="unknown_run",
        acts=[
            Act(("GET", path, None), ("get", "{}"), ("show", "{}")),
            Act(("GET", f"{path}/history", None), ("history", "{}")),
            Act(("GET", f"{path}/steps", None), ("steps", "{}")),
            Act(("GET", f"{path}/record", None), ("record", "{}"), ("workflow", "record", "{}")),
            Act(("GET", f"{path}/explanation", None), ("explain", "{}"), ("explain", "{}")),
            Act(("GET", f"{path}/logs", None), ("logs", "{}"), ("logs", "{}")),
            *(
                Act(("POST", f"{path}/{action}", {}), (action, "{}"), (action, "{}"), CANNOT_OPERATE)
                for action in ("cancel", "hold", "release", "retry")
            ),
            *(
                Act(
                    ("POST", f"{path}/{action}", {}),
                    ("act_on_workflow", "{}", action),
                    ("workflow", action, "{}"),
                    CANNOT_OPERATE,
                )
                for action in ("resume", "abandon")
            ),
        ],
    )


def workflows(seeds: Seeds) -> Resource:
    red, blue = seeds.workflows["red"], seeds.workflows["blue"]
    outer, *naps = red
    return Resource(
        path="/api/v1/workflows",
        rows="workflows",
        key="run_id",
        call="workflows",
        command=("workflows",),
        seed=seeds.workflows,
        order=[outer, *blue, *naps],
        filters=[
            Filter({"job": "outer"}, [outer]),
            Filter({"tenant": "blue"}, blue),
            Filter({"tenant": "blue", "job": "outer"}, []),
            Filter({"status": "halted"}, []),
            Filter({"status": "waiting"}, [outer, *blue, *naps]),
            Filter(
                {"job": "naps", "steps": "true"},
                [*blue, *naps],
                ("--job", "naps", "--steps"),
                {"job": "naps", "steps": True},
            ),
        ],
        bad=[
            *bad_pages("r1", "run"),
            Filter({"cursor": "w"}, ["bad_cursor"], (), {}),
            Filter({"status": "odd"}, ["bad_value"]),
        ],
    )


def jobs() -> Resource:
    path = "/{}"
    return Resource(
        path="/api/v1/jobs",
        rows="jobs",
        call="jobs",
        command=("jobs",),
        seed={"": JOBS},
        order=JOBS,
        bad=[
            *bad_pages("x", "tenant", ""),
            *(Filter({"cursor": cursor}, ["bad_cursor"], (), {}) for cursor in ("r5", "")),
        ],
        limit="",
        unknown="unknown_job",
        suggests=True,
        acts=[
            Act(("GET", path, None), ("job", "{}"), ("jobs", "{}")),
            Act(("GET", f"{path}/next", None), ("next_times", "{}"), ("next", "{}")),
            Act(("GET", f"{path}/log", None), ("job_log", "{}")),
            Act(("POST", f"{path}/trigger", {}), ("trigger", "{}"), ("trigger", "{}"), CANNOT_OPERATE),
            Act(("POST", f"{path}/pause", None), ("pause", "{}"), ("pause", "{}"), CANNOT_CHANGE),
            Act(("POST", f"{path}/resume", None), ("resume", "{}"), ("resume", "{}"), CANNOT_CHANGE),
            Act(
                ("POST", f"{path}/backfill", {"from": 1.0, "to": 2.0}),
                ("backfill", "{}", 1.0, 2.0),
                ("backfill", "{}", "1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z"),
                CANNOT_CHANGE,
            ),
            Act(("DELETE", path, None), ("delete_job", "{}"), (), CANNOT_CHANGE),
        ],
    )


def approvals(seeds: Seeds) -> Resource:
    red, blue = seeds.approvals["red"], seeds.approvals["blue"]
    run = "/api/v1/runs/{}"
    answers = [
        Act(
            ("POST", f"{run}/{action}", {"reason": "x"}),
            (action, "{}", "x"),
            (action, "{}", "--reason", "x", *yes),
            ("clerk", "guest", "stranger", "porter", "watchman"),
        )
        for action, yes in (("approve", ["--yes"]), ("reject", []))
    ]
    return Resource(
        path="/api/v1/approvals",
        rows="approvals",
        key="run_id",
        call="approvals",
        command=("approvals",),
        seed=seeds.approvals,
        order=[*blue, *red],
        filters=[
            Filter({"job": ASKS}, red),
            Filter({"job": "count"}, blue),
            Filter({"job": "count", "tenant": "red"}, []),
            Filter({"tenant": "blue"}, blue),
        ],
        bad=bad_pages("r1", "run"),
        unknown="unknown_run",
        acts=[Act(("GET", "/{}", None), ("approval", "{}")), *answers],
    )


def audit() -> Resource:
    return Resource(
        path="/api/v1/audit",
        rows="entries",
        key="subject",
        call="audit",
        command=("audit", "--limit", "1000"),
        seed={"red": ["red-run", "red-two"], "blue": ["blue-run"]},
        order=["red-run", "blue-run", "red-two"],
        filters=[
            Filter({"kind": "approved"}, ["blue-run"]),
            Filter({"actor": "clerk"}, ["red-run"]),
            Filter({"subject": "red-run"}, ["red-run"], ("--run", "red-run")),
            Filter({"tenant": "red", "kind": "rejected"}, ["red-two"]),
            Filter({"since": LATER}, []),
        ],
        bad=[
            *bad_pages("r1", "run", "last"),
            Filter({"kind": "odd"}, ["bad_value"]),
            Filter({"since": "x"}, ["bad_value"]),
            Filter({"last": "maybe"}, ["bad_value"], (), {}),
        ],
        refused=("clerk", "guest", "stranger", "porter", "watchman"),
        limit="last",
    )


def deliveries() -> Resource:
    red = [PENDING, FAILED, DELIVERED]
    return Resource(
        path="/api/v1/deliveries",
        rows="deliveries",
        call="deliveries",
        command=("deliveries",),
        seed={"red": red, "blue": [OTHER]},
        order=[*red, OTHER],
        filters=[
            Filter({"run": "blue-run"}, [OTHER]),
            Filter({"tenant": "blue"}, [OTHER]),
            Filter({"state": "delivered"}, [DELIVERED]),
            Filter({"id_prefix": DELIVERED[:8]}, [DELIVERED], ()),
            Filter({"job": "echo", "tenant": "red", "state": "failed"}, [FAILED]),
            Filter({"job": "other"}, []),
        ],
        bad=[
            *bad_pages("r1", "runs"),
            Filter({"state": "lost"}, ["bad_value"]),
            Filter({"id_prefix": "short"}, ["bad_value"], ()),
        ],
        unknown="unknown_delivery",
        acts=[
            Act(("GET", "/{}", None), ("delivery", "{}"), ("deliveries", "{}")),
            Act(("POST", "/{}/redeliver", None), ("redeliver", "{}"), ("redeliver", "{}"), CANNOT_OPERATE),
        ],
    )


def letters() -> Resource:
    red = ["red-two", "red-one", "gone-run"]
    return Resource(
        path="/api/v1/dead-letters",
        rows="letters",
        call="dead_letters",
        command=("dlq", "list"),
        seed={"": [POISON], "red": red, "blue": ["blue-one"]},
        order=[POISON, "blue-one", *red],
        filters=[
            Filter({"code": "orphaned"}, ["red-two"]),
            Filter({"job": "add"}, ["red-two", "red-one"]),
            Filter({"job": "none"}, []),
            Filter({"job": "add", "until": LATER}, ["red-two", "red-one"], ("--job", "add", "--before", LATER)),
            Filter({"job": "add", "since": LATER}, []),
            Filter({"until": 1.0}, [], ("--before", "1970-01-01T00:00:01Z")),
            Filter(
                {"tenant": "blue", "replayed": "false"},
                ["blue-one"],
                ("--tenant", "blue", "--not-replayed"),
                {"tenant": "blue", "replayed": False},
            ),
            Filter({"replayed": "true"}, [], ("--replayed",), {"replayed": True}),
        ],
        bad=[
            *bad_pages("r1"),
            Filter({"code": "sad"}, ["bad_value"]),
            Filter({"since": "x"}, ["bad_value"]),
        ],
        unknown="unknown_letter",
        acts=[
            Act(("GET", "/{}", None), ("dead_letter", "{}"), ("dlq", "show", "{}")),
            Act(("POST", "/{}/replay", {}), ("replay", "{}"), ("dlq", "replay", "{}"), CANNOT_OPERATE),
            Act(("DELETE", "/{}", None), ("drop_dead_letter", "{}"), ("dlq", "drop", "{}"), CANNOT_OPERATE),
        ],
    )


def sessions() -> Resource:
    return Resource(
        path="/api/v1/sessions",
        rows="sessions",
        key="key",
        call="sessions",
        command=("sessions",),
        seed={"red": ["r1", "r2"], "blue": ["b1"]},
        order=["b1", "r1", "r2"],
        filters=[Filter({"tenant": "blue"}, ["b1"]), Filter({"tenant": "nobody"}, [])],
        bad=[
            *bad_pages("jx", "tenants", ""),
            Filter({"cursor": "kx"}, ["bad_cursor"], (), {}),
        ],
        limit="",
        acts=[
            Act(
                ("POST", f"/{{}}/{action}", None),
                ("act_on_session", "{}", action),
                ("session", action, "{}"),
                CANNOT_OPERATE,
            )
            for action in ("stop", "stopall", "reset", "pause", "resume")
        ],
    )


def lanes() -> Resource:
    return Resource(
        path="/api/v1/lanes",
        rows="lanes",
        call="lanes",
        command=("lanes",),
        seed={"": ["main", "team", "cron"]},
        order=["main", "team", "cron"],
        refused=ONE_TENANT,
        unknown="unknown_lane",
        suggests=True,
        acts=[
            Act(
                ("PATCH", "/{}", {"limit": 9}),
                ("set_lane", "{}"),
                ("lane", "set", "{}", "--limit", "9"),
                CANNOT_CHANGE,
            ),
            *(
                Act(
                    ("POST", f"/{{}}/{action}", None),
                    ("act_on_lane", "{}", action),
                    ("lane", action, "{}"),
                    CANNOT_CHANGE,
                )
                for action in ("pause", "resume", "drain")
            ),
        ],
    )


def workers(worker: str) -> Resource:
    return Resource(
        path="/api/v1/workers",
        rows="workers",
        call="workers",
        command=("workers",),
        seed={"": [worker]},
        order=[worker],
        filters=[Filter({"pool": "default"}, [worker]), Filter({"pool": "gpu"}, [])],
        refused=ONE_TENANT,
        unknown="unknown_worker",
        suggests=True,
        acts=[
            Act(("GET", "/{}", None), ("worker", "{}"), (), ONE_TENANT),
            *(
                Act(
                    ("POST", f"/{{}}/{action}", None),
                    ("act_on_worker", "{}", action),
                    ("workers", action, "{}"),
                    CANNOT_CHANGE,
                )
                for action in ("drain", "resume", "remove")
            ),
        ],
    )


def pools() -> Resource:
    return Resource(
        path="/api/v1/pools",
        rows="pools",
        call="pools",
        command=("pools",),
        seed={"": ["default"]},
        order=["default"],
        refused=ONE_TENANT,
    )


def tenants() -> Resource:
    return Resource(
        path="/api/v1/tenants",
        rows="tenants",
        call="tenants",
        command=("tenants",),
        seed={"red": ["red"], "blue": ["blue"]},
        order=["red", "blue"],
    )


def services() -> Resource:
    return Resource(
        path="/api/v1/services",
        rows="services",
        key="name",
        call="services",
        command=("services",),
        seed={"": ["talk", "steady", "broken"]},
        order=["talk", "steady", "broken"],
        refused=ONE_TENANT,
        unknown="unknown_child",
        suggests=True,
        acts=[
            Act(("GET", "/{}", None), ("service", "{}"), (), ONE_TENANT),
            Act(("GET", "/{}/logs", None), ("service_logs", "{}"), (), ONE_TENANT),
            *(
                Act(("POST", f"/{{}}/{action}", None), ("act", "{}", action), ("service", action, "{}"), CANNOT_CHANGE)
                for action in ("start", "stop", "restart", "suspend", "resume")
            ),
        ],
    )


WELL = {"run": {"process": ["true"]}}
OTHERS = [
    *(Act(("GET", path, None), refused=ONE_TENANT) for path in ("/api/v1/tree", "/metrics")),
    *(Act(("GET", path, None)) for path in ("/api/v1/timetable", "/api/v1/next?every=1m")),
    Act(("POST", "/api/v1/runs", {"job": "echo"}), refused=CANNOT_OPERATE),
    Act(("POST", "/api/v1/runs/batch", {"runs": [{"job": "echo"}]}), refused=CANNOT_OPERATE),
    Act(("POST", "/api/v1/runs/cancel", {"session": "nobody"}), refused=CANNOT_OPERATE),
    Act(("POST", "/api/v1/dead-letters/drop", {"job": "none"}), refused=CANNOT_OPERATE),
    Act(("POST", "/api/v1/lanes", {"id": "more", "limit": 1}), refused=CANNOT_CHANGE),
    Act(("PUT", "/api/v1/jobs/mine", WELL), refused=CANNOT_CHANGE),
    Act(("POST", "/api/v1/jobs", {"jobs": [WELL | {"id": "mine"}]}), refused=CANNOT_CHANGE),
    Act(("POST", "/api/v1/reload", None), refused=CANNOT_CHANGE),
]
"""what is asked of no resource in particular"""

"""The document `kind: Policy`: rules that are checked top down, lists of tenants, filters of tools, and cases."""

from typing import Annotated, Any

from interlock.error import BadUse, MissingField
from interlock.fields import field_types as kinds
from interlock.fields.field import Checked, Nested, Several, doc
from interlock.model.guard import ACTIONS, Action, AnyTime, Names, Payload, check_actions
from interlock.model.job import TAGS, Priority
from interlock.model.policy.output import GLOBS, FailMode, OutputPolicy
from interlock.model.policy.verdict import LARGEST_OUTPUT, Ruling, RunLimits

MOST_RULES = 10_000
MOST_CASES = 10_000
LONGEST_WHEN = 1000  # characters of an expression
MOST_REQUESTS = 100_000  # of one window: each is remembered
TOOL_LABELS = {"servers": "mcp.server", "tools": "mcp.tool", "resources": "mcp.resource", "actions": "mcp.action"}
"""end of a field of a tool filter → the label it looks at"""

LINE = kinds.Word(r"[^\x00-\x1f]{1,500}", "one line of up to 500 characters")
FACT = kinds.Word(r"[^\x00-\x1f]{0,500}", "one line of up to 500 characters")
FACTS = kinds.Table(FACT, "a mapping of labels to their values")


class Default(kinds.Choice):
    """The decision if no rule matches; nothing means deny."""

    def check(self, value: Any, place: kinds.FieldPath) -> Any:
        return Ruling.DENY if value in (None, "") else super().check(value, place)

    def schema(self) -> kinds.Schema:
        return {"enum": [*self.names, "", None]}


class ToolFilter(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A filter of tool calls: requests with a label `mcp.server`, `mcp.tool`, `mcp.resource` or `mcp.action`. Deny
    wins; a list of what is allowed excludes the rest."""

    allow_servers: Annotated[Names, doc("The only servers that may be called."), GLOBS] = ()
    deny_servers: Annotated[Names, doc("Servers that may not be called."), GLOBS] = ()
    allow_tools: Annotated[Names, doc("The only tools that may be called."), GLOBS] = ()
    deny_tools: Annotated[Names, doc("Tools that may not be called."), GLOBS] = ()
    allow_resources: Annotated[Names, doc("The only resources that may be used."), GLOBS] = ()
    deny_resources: Annotated[Names, doc("Resources that may not be used."), GLOBS] = ()
    allow_actions: Annotated[Names, doc("The only actions that may be taken."), GLOBS] = ()
    deny_actions: Annotated[Names, doc("Actions that may not be taken."), GLOBS] = ()


class TenantLists(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """Lists that make the verdicts on the runs of one tenant stricter."""

    allow_topics: Annotated[Names, doc("The only topics that its runs may have."), GLOBS] = ()
    deny_topics: Annotated[Names, doc("Topics that its runs may not have."), GLOBS] = ()
    tools: Annotated[ToolFilter | None, doc("Filter of its tool calls.")] = None


class Match(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions on a request, which must all hold. An empty one holds for every request."""

    tenants: Annotated[Names, doc("Tenants; one must fit."), GLOBS] = ()
    topics: Annotated[Names, doc("Topics; one must fit."), GLOBS] = ()
    capabilities: Annotated[Names, doc("Capabilities; the job must have one of them."), TAGS] = ()
    risk_tags: Annotated[Names, doc("Risk tags; the job must have one of them."), TAGS] = ()
    requires: Annotated[Names, doc("Requirements; the job must have all of them."), TAGS] = ()
    labels: Annotated[dict[str, str], doc("Labels; the run must have all, each with a value that fits."), FACTS] = {}
    actors: Annotated[Names, doc("Submitters; one must fit."), GLOBS] = ()
    priority: Annotated[
        Names, doc("Priorities; one must be that of the job."),
        kinds.Texts(kinds.Word("|".join(Priority), f"one of {', '.join(Priority)}"), make=tuple),
    ] = ()  # fmt: skip
    payload_over: Annotated[int | None, doc("Size that the payload must exceed."), kinds.Size(0, LARGEST_OUTPUT)] = None
    secrets: Annotated[bool | None, doc("Whether the payload must have secrets, or must have none.")] = None


class Velocity(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A rate: the rule matches a request only if `max_requests` others came within the window."""

    max_requests: Annotated[
        int, doc("Requests within the window after which the rule matches."), kinds.Whole(1, MOST_REQUESTS)
    ]
    window: Annotated[AnyTime, doc("Length of the sliding window."), kinds.Span("1s", "31d")]
    key: Annotated[
        str,
        doc("Requests counted together: `tenant`, `actor`, `topic`, `job`, `session`, `label:NAME`; empty for all."),
        kinds.Text(
            "|tenant|actor|topic|job|session|label:.{1,200}", "tenant, actor, topic, job, session, label:NAME or empty"
        ),
    ] = ""


class Rule(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A rule: the first whose conditions hold decides."""

    id: Annotated[str, doc("Name of the rule, unique in the policy."), kinds.JOB_WORD]
    match: Annotated[Match, doc("Conditions; without any, every request matches.")] = Match()
    when: Annotated[
        str | None, doc("Condition in CEL, such as `payload.amount > 100`."),
        kinds.Text(
            r"[^\x00]*\S[^\x00]*", f"a CEL expression of up to {LONGEST_WHEN:,} characters",
            accepts=lambda text: len(text) <= LONGEST_WHEN,
        ),
    ] = None  # fmt: skip
    velocity: Annotated[Velocity | None, doc("Rate above which the rule matches.")] = None
    decision: Annotated[Ruling, doc("`allow`, `allow_with_constraints`, `require_approval`, `throttle` or `deny`.")]
    reason: Annotated[str, doc("Reason that people are shown."), LINE] = ""
    limits: Annotated[RunLimits | None, doc("For `allow_with_constraints`: limits of the run.")] = None
    tools: Annotated[ToolFilter | None, doc("Filter of the tool calls that the rule does not deny.")] = None

    def check(self) -> None:
        if self.decision is Ruling.CONSTRAIN and (self.limits is None or self.limits == RunLimits()):
            raise MissingField("limits") if self.limits is None else BadUse("limits", "sets no limit")
        if self.decision is not Ruling.CONSTRAIN and self.limits is not None:
            raise BadUse("limits", f"only for {Ruling.CONSTRAIN}, not for {self.decision}")


class Case(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A request and the verdict expected for it. What it leaves out comes from the job, if that is declared."""

    name: Annotated[str, doc("Name of the case."), LINE]
    job: Annotated[str, doc("Job of the run."), kinds.JOB_WORD]
    topic: Annotated[str | None, doc("Topic."), kinds.JOB_WORD] = None
    tenant: Annotated[str, doc("Tenant."), LINE] = "default"
    actor: Annotated[str, doc("Submitter."), FACT] = ""
    priority: Annotated[Priority | None, doc("Priority.")] = None
    lane: Annotated[str | None, doc("Lane."), LINE] = None
    session: Annotated[str | None, doc("Session."), LINE] = None
    capabilities: Annotated[Names | None, doc("Capabilities of the job."), TAGS] = None
    risk_tags: Annotated[Names | None, doc("Risk tags of the job."), TAGS] = None
    requires: Annotated[Names | None, doc("Requirements of the job."), TAGS] = None
    labels: Annotated[dict[str, str], doc("Labels of the run."), FACTS] = {}
    payload: Annotated[dict[str, Any] | None, doc("Arguments."), Payload()] = None
    secrets: Annotated[bool, doc("Whether the payload has secrets, even if none can be seen in it.")] = False
    times: Annotated[
        int, doc("Number of such requests at once; the last verdict counts."), kinds.Whole(1, MOST_REQUESTS)
    ] = 1
    expect: Annotated[Ruling, doc("Expected decision.")]
    rule: Annotated[str | None, doc("Rule that is expected to decide; empty for none."), FACT] = None


class PolicyDocument(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A policy."""

    id: Annotated[str, doc("Name of the policy."), kinds.JOB_WORD]
    default_decision: Annotated[
        Ruling, doc("Decision if no rule matches: `deny`, `allow`, `require_approval` or `throttle`."),
        Default(*(ruling for ruling in Ruling if ruling is not Ruling.CONSTRAIN), make=Ruling),
    ] = Ruling.DENY  # fmt: skip
    tenants: Annotated[
        dict[str, TenantLists],
        doc("Lists of each tenant, which make verdicts stricter."),
        kinds.Table(Nested(TenantLists)),
    ] = {}
    tools: Annotated[ToolFilter | None, doc("Filter of everybody's tool calls, which makes verdicts stricter.")] = None
    rules: Annotated[
        tuple[Rule, ...], doc("Rules, checked top down; the first that matches decides."),
        Several(Nested(Rule), MOST_RULES),
    ] = ()  # fmt: skip
    output: Annotated[OutputPolicy | None, doc("What may come out; without it, results are not checked.")] = None
    output_fail_mode: Annotated[
        FailMode, doc("Whether a result that cannot be scanned stays (`open`) or is quarantined (`closed`).")
    ] = FailMode.OPEN
    on_approval_required: Annotated[
        tuple[Action, ...], doc("Actions when a run needs an approval: `webhook`, `trigger_job` or `call`."), ACTIONS
    ] = ()
    cases: Annotated[
        tuple[Case, ...], doc("Requests with the verdicts expected, for `interlock policy test`."),
        Several(Nested(Case), MOST_CASES),
    ] = ()  # fmt: skip

    def check(self) -> None:
        check_actions("on_approval_required", self.on_approval_required, False)

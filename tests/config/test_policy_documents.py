"""Policies in documents: what is read, and every fault with its file and line."""

import time

import pytest

import interlock as il
from interlock.config.sources import NO_APP, FromApp, load
from interlock.error import BadConfig
from interlock.model.policy.verdict import PolicyRequest, Ruling
from tests.config.writing import put

POLICY = "kind: Policy\nid: main\nrules:\n- {id: a, decision: allow}\n"
"""what a test adds begins on line 5"""
RULE = POLICY + "- id: b\n  decision: deny\n"
"""what a test adds to the second rule begins on line 7"""


def faults(*paths: str, app: FromApp = NO_APP) -> list[str]:
    with pytest.raises(BadConfig) as caught:
        load(paths, app)
    lines = str(caught.value).split("\n")
    return lines if len(lines) == 1 else lines[1:]


@pytest.mark.behaviour("POL-2", "POL-12")
def test_every_field_is_read() -> None:
    loaded = load(
        [
            put("""\
kind: Policy
id: main
default_decision: require_approval
tenants:
  acme: {allow_topics: ["billing.*"], deny_topics: [billing.refund], tools: {deny_tools: [rm]}}
tools: {allow_servers: [git]}
rules:
- id: big
  match: {tenants: [acme], topics: ["billing.*"], capabilities: [money], risk_tags: [pii], requires: [gpu],
          labels: {env: prod, build: 5}, actors: ["*@example.com"], priority: [batch], payload_over: 1MB, secrets: true}
  when: payload.amount > 100
  velocity: {max_requests: 5, window: 1m, key: "label:user"}
  decision: allow_with_constraints
  reason: too much
  limits: {max_runtime: 5m, max_retries: 0, max_output: 1MB, max_concurrent: 1, environment: [PATH], sandbox: strict,
           tools: [read]}
  tools: {allow_actions: [read]}
- {id: rest, decision: allow}
cases:
- {name: small, job: pay, tenant: acme, topic: billing.pay, payload: {amount: 5}, expect: allow, rule: rest}
""")
        ]
    )
    assert loaded.policy is not None
    document = loaded.policy.document
    assert (document.default_decision, document.tenants["acme"].deny_topics) == (Ruling.ASK, ("billing.refund",))
    rule = document.rules[0]
    assert (rule.match.labels, rule.match.payload_over) == ({"env": "prod", "build": "5"}, 1_000_000)
    assert rule.velocity is not None
    assert rule.velocity.window == 60.0
    assert rule.limits is not None
    assert (rule.limits.max_runtime, rule.limits.max_output) == (300.0, 1_000_000)
    assert loaded.summary() == "0 jobs, 0 services, 0 groups, 0 lanes and a policy of 2 rules"
    assert load([]).policy is None


@pytest.mark.behaviour("POL-2", "POL-3", "POL-12")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Policy\n", "a.yaml:1: id: missing"),
        (POLICY + "rule: []\n", "a.yaml:5: rule: unknown field; did you mean 'rules'?"),
        (POLICY + "default_decision: maybe\n", "a.yaml:5: default_decision: 'maybe' is not one of allow, require_ap"),
        (POLICY + "default_decision: allow_with_constraints\n", "a.yaml:5: default_decision: 'allow_with_constraints'"),
        (POLICY + "tenants: [acme]\n", "a.yaml:5: tenants: ['acme'] is not a mapping"),
        (POLICY + "tenants:\n  acme: {allow_topic: []}\n", "a.yaml:6: tenants.acme.allow_topic: unknown field"),
        (POLICY + "tools: {allow_tool: []}\n", "a.yaml:5: tools.allow_tool: unknown field; did you mean 'allow"),
        (POLICY + "- decision: allow\n", "a.yaml:5: rules[1].id: missing"),
        (POLICY + "- id: b\n", "a.yaml:5: rules[1].decision: missing"),
        (POLICY + "- id: b c\n  decision: allow\n", "a.yaml:5: rules[1].id: 'b c' is not"),
        (POLICY + "- id: b\n  decision: alow\n", "a.yaml:6: rules[1].decision: 'alow' is not one of"),
        (POLICY + "- id: b\n  decision: [allow]\n", "a.yaml:6: rules[1].decision: ['allow'] is not one of"),
        (POLICY + "- {id: b, decision: deny}\n- id: a\n  decision: deny\n",
         "a.yaml:6: rules[2].id: 'a' is declared twice, first at a.yaml:4"),
        (RULE + "  match: {topic: a}\n", "a.yaml:7: rules[1].match.topic: unknown field; did you mean 'topics'?"),
        (RULE + "  match: {topics: a}\n", "a.yaml:7: rules[1].match.topics: 'a' is not a list"),
        (RULE + "  match: {labels: [a]}\n", "a.yaml:7: rules[1].match.labels: ['a'] is not a mapping"),
        (RULE + "  match: {labels: {a: [b]}}\n", "a.yaml:7: rules[1].match.labels.a: ['b'] is not one line"),
        (RULE + "  match: {priority: [high]}\n", "a.yaml:7: rules[1].match.priority[0]: 'high' is not one of"),
        (RULE + "  match: {payload_over: big}\n", "a.yaml:7: rules[1].match.payload_over: 'big' is not"),
        (RULE + "  match: {secrets: 5}\n", "a.yaml:7: rules[1].match.secrets: 5 is not true or false"),
        (RULE + "  velocity: {max_requests: 0, window: 1m}\n", "a.yaml:7: rules[1].velocity.max_requests: 0 is not a"),
        (RULE + "  velocity: {max_requests: 5}\n", "a.yaml:7: rules[1].velocity.window: missing"),
        (RULE + "  velocity: {max_requests: 5, window: 0s}\n", "a.yaml:7: rules[1].velocity.window: '0s' is not"),
        (RULE + "  velocity: {max_requests: 5, window: 1m, key: user}\n",
         "a.yaml:7: rules[1].velocity.key: 'user' is not tenant, actor,"),
        (RULE + "  limits: {max_retries: 1}\n", "a.yaml:7: rules[1].limits: only for allow_with_constraints"),
        (POLICY + "- id: b\n  decision: allow_with_constraints\n", "a.yaml:5: rules[1].limits: missing"),
        (POLICY + "- id: b\n  decision: allow_with_constraints\n  limits: {}\n", "a.yaml:7: rules[1].limits: sets no"),
        (POLICY + "- id: b\n  decision: allow_with_constraints\n  limits: {max_retrys: 1}\n",
         "a.yaml:7: rules[1].limits.max_retrys: unknown field; did you mean 'max_retries'?"),
        (RULE + "  when: tenant == 1\n", "a.yaml:7: rules[1].when: found no matching overload for '_==_'"),
        (RULE + "  when: tenant ==\n", "a.yaml:7: rules[1].when: Syntax error"),
        (RULE + "  when: payload_size\n", "a.yaml:7: rules[1].when: is of type int, not bool"),
        (RULE + f"  when: {'a' * 1001}\n", "a.yaml:7: rules[1].when: <str, too long to show> is not a CEL expression"),
        (RULE + "  when: ''\n", "a.yaml:7: rules[1].when: '' is not a CEL expression"),
        (POLICY + "cases:\n- {name: c, job: a}\n", "a.yaml:6: cases[0].expect: missing"),
        (POLICY + "cases:\n- {name: c, job: a, expect: yes}\n", "a.yaml:6: cases[0].expect: 'yes' is not one of"),
        (POLICY + "cases:\n- name: c\n  job: a\n  expect: allow\n  rule: aa\n",
         "a.yaml:9: cases[0].rule: there is no rule 'aa'"),
        (POLICY + "---\nkind: Policy\nid: other\n",
         "a.yaml:7: id: 'other' is a second policy, after 'main' at a.yaml:2; only one can be in force"),
        (POLICY + "x" * 10_000_000, "a.yaml: larger than 1,000,000 bytes"),
        ("kind: Policy\nid: main\nrules:\n" + "".join(f"- {{id: r{n}, decision: allow}}\n" for n in range(10_001)),
         "a.yaml:3: rules: 10,001 given; at most 10,000 are allowed"),
    ],
)  # fmt: skip
def test_each_fault_names_its_file_and_line(text: str, says: str) -> None:
    (line,) = faults(put(text))
    assert line.startswith(says)


OUTPUT = POLICY + "output:\n"


@pytest.mark.behaviour("OUT-4")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (POLICY + "output_fail_mode: maybe\n", "a.yaml:5: output_fail_mode: 'maybe' is not one of open, closed"),
        (OUTPUT + "  rule: []\n", "a.yaml:6: output.rule: unknown field; did you mean 'rules'?"),
        pytest.param(
            OUTPUT + "  timeout: 31s\n", "a.yaml:6: output.timeout: '31s' is not", marks=pytest.mark.behaviour("OUT-3")
        ),
        (OUTPUT + "  rules:\n  - {id: a, decision: redact}\n",
         "a.yaml:7: output.rules[0].decision: 'redact' is not allowed in a rule, only in a scanner; use"),
        (OUTPUT + "  rules:\n  - {id: a, decision: block}\n", "a.yaml:7: output.rules[0].decision: 'block' is not"),
        (OUTPUT + "  rules:\n  - id: a\n    decision: deny\n    match: {sensitivity: [hot]}\n",
         "a.yaml:9: output.rules[0].match.sensitivity[0]: 'hot' is not one of"),
        (OUTPUT + "  rules:\n  - {id: a, decision: deny}\n  - id: a\n    decision: allow\n",
         "a.yaml:8: output.rules[1].id: 'a' given twice; each rule needs its own id"),
        (OUTPUT + "  scanners:\n  - secrets\n  - secret\n",
         "a.yaml:8: output.scanners[1].scanner: 'secret' is not one of"),
        (OUTPUT + "  scanners:\n  - {scanner: secrets, action: hide}\n",
         "a.yaml:7: output.scanners[0].action: 'hide' is not one of"),
        (OUTPUT + "  scanners:\n  - scanner: regex\n    patterns: [a, '(?=x)']\n",
         "a.yaml:8: output.scanners[0].patterns[1]: RE2 refuses the pattern '(?=x)'"),
        (OUTPUT + "  scanners:\n  - scanner: size\n    max: 1MB\n    action: redact\n",
         "a.yaml:9: output.scanners[0].action: 'redact' is not allowed for size"),
        (OUTPUT + "  scanners:\n  - {scanner: keywords}\n", "a.yaml:7: output.scanners[0].words: missing"),
        (OUTPUT + "  scanners:\n  - secrets\n  - scanner: python\n    name: names\n",
         "a.yaml:9: output.scanners[1].name: the app has no scanner 'names'; did you mean 'nemes'?"),
    ],
)  # fmt: skip
def test_each_fault_of_the_output_policy_names_its_file_and_line(text: str, says: str) -> None:
    (line,) = faults(put(text), app=FromApp(target="a:app", scanners=["nemes"]))
    assert line.startswith(says)


def test_scanners_of_an_app_need_the_app() -> None:
    path = put(OUTPUT + "  scanners:\n  - scanner: python\n    name: names\n")
    assert load([path], FromApp(target="a:app", scanners=["names"])).warnings == []
    [warning] = load([path]).warnings
    says = "this scanner belongs to an app; give it with -A, or results are not scanned"
    assert warning == f"{path}:8: output.scanners[0].name: {says}"


def test_all_faults_are_named_at_once() -> None:
    text = RULE + "  when: tenant == 1\n- {id: a, decision: deny, when: nope}\n"
    assert [line.partition(": ")[0] for line in faults(put(text))] == ["a.yaml:7", "a.yaml:8", "a.yaml:8"]
    assert len(faults(put(POLICY), put(POLICY, "b.yaml"))) == 1


@pytest.mark.behaviour("POL-2")
def test_names_that_no_job_has_are_warned_of(app: il.App) -> None:
    policy = """\
kind: Policy
id: main
tenants: {acme: {deny_topics: [nightly, weekly]}}
rules:
- id: a
  match: {topics: [nightly, "bil*", "pay*"], capabilities: [network, netwrk], risk_tags: [pii], requires: [gpu]}
  decision: allow
"""
    job = "---\nkind: Job\nid: nightly\nrun: {process: [dump]}\ncapabilities: [network]\nrequires: [gpu]\n"

    @app.job("refund", topic="pay.refund")
    def refund() -> None: ...

    loaded = load([put(policy + job)], FromApp(target="x:app", definitions=app.definitions))
    assert loaded.warnings == [
        "a.yaml:6: rules[0].match.topics[1]: no declared job has a topic 'bil*'",
        "a.yaml:6: rules[0].match.capabilities[1]: no declared job has 'netwrk'; did you mean 'network'?",
        "a.yaml:6: rules[0].match.risk_tags[0]: no declared job has 'pii'",
        "a.yaml:3: tenants.acme.deny_topics[1]: no declared job has a topic 'weekly'",
    ]
    # Without any job nothing is known.
    assert load([put(policy)]).warnings == []


def test_the_largest_policy_is_read_in_seconds() -> None:
    rules = (f"- {{id: r{n}, match: {{topics: [t{n}, 'u{n}.*']}}, decision: allow}}\n" for n in range(10_000))
    begun = time.monotonic()
    loaded = load([put("kind: Policy\nid: main\nrules:\n" + "".join(rules))])
    assert time.monotonic() - begun < 30
    assert loaded.policy is not None
    assert loaded.policy.judge(PolicyRequest(job="a", topic="u9999.x"), None, 0.0).rule == "r9999"

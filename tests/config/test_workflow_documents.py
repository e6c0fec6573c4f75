"""Workflows in documents: every fault is told, with its line."""

import pytest

import interlock as il
from interlock.config.documents import Faults, read
from interlock.config.sources import FromApp, build, load
from interlock.error import BadConfig
from interlock.model.workflow import Then
from tests.config.writing import put

JOBS = "kind: Job\nid: work\nrun: {shell: cat}\n---\n"
FLOW = JOBS + "kind: Workflow\nid: flow\nsteps:\n"
"""what a test adds begins on line 8"""


def fault_of(text: str) -> str:
    with pytest.raises(BadConfig) as caught:
        load([put(text)])
    return str(caught.value)


def test_a_workflow_is_read() -> None:
    steps = """\
- {id: a, job: work, with: {url: "${input.url}"}, timeout: 5m}
- {id: b, job: work, for_each: "${steps.a.result.all}", max_parallel: 3, with: {one: "${item}"}, on_error: continue}
- {id: c, run: {shell: date}, if: "${size(steps.b.result) > 1}", on_error: {step: d, then: continue}}
- {id: nap, sleep: 2h}
- {id: d, job: work}
result: "${steps.c.result}"
schedule: {every: 1h}
deadline: 1d
"""
    jobs = [one.job for one in load([put(FLOW + steps)]).jobs]
    workflow = jobs[1].workflow
    assert workflow is not None
    a, b, c, nap, d = workflow.steps
    assert (a.timeout, b.max_parallel, b.on_error.then, c.on_error.step) == (300.0, 3, Then.CONTINUE, "d")
    assert (nap.sleep, d.job, jobs[1].deadline) == (7200.0, "work", 86400.0)
    assert workflow.needs == {"a": (), "b": ("a",), "c": ("b",), "nap": ("c",)}


@pytest.mark.behaviour("WFL-1", "WFL-13", "TIM-12")
@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("- {id: a, job: wrk}", ":8: steps[0].job: 'wrk' is not declared; did you mean 'work'?"),
        ("- {id: a, workflow: work}", ":8: steps[0].workflow: 'work' is a job; write job: work"),
        ("- {id: a, job: flow}", ":8: steps[0].job: 'flow' is a workflow; write workflow: flow"),
        ("- {id: a, job: work}\n- {id: a, job: work}", ":9: steps[1].id: 'a' is the id of steps[0] too"),
        ("- {id: 'a@b', job: work}", ":8: steps[0].id: 'a@b' is not a name of letters"),
        ("- {id: a, job: work, sleep: 1s}", ":8: steps[0]: "),
        ("- {id: a, approve: ''}", ":8: steps[0].approve.question: '' is not a text of 1 to 500 characters"),
        ("- {id: a, approve: {data: 1}}", ":8: steps[0].approve.question: missing, but required"),
        ("- {id: a, approve: {question: q, by: ann}}", ":8: steps[0].approve.by: unknown field"),
        ("- {id: a, approve: q, lane: main}", ":8: steps[0].lane: a step with approve has none"),
        ("- {id: a, approve: q, retry: {max_retries: 1}}", ":8: steps[0].retry: a step with approve has none"),
        ("- {id: a, approve: q, timeout: 0s}", ":8: steps[0].timeout: "),
        (
            "- {id: a, approve: 'Pay ${steps.b.result}?'}",
            ":8: steps[0].approve.question: ${steps.b.result}: 'b' is not",
        ),
        ("- {id: a, approve: {question: q, data: '${x}'}}", ":8: steps[0].approve.data: ${x} begins with none of"),
        ("- {id: a, job: work, needs: [b]}", ":8: steps[0].needs[0]: 'b' is not a step"),
        (
            "- {id: a, job: work, needs: [b]}\n- {id: b, job: work, needs: [a]}",
            ":8: steps[0].needs: 'a' needs 'b' needs 'a'; a cycle never starts",
        ),
        ("- {id: a, job: work, on_error: {step: b}}", ":8: steps[0].on_error.step: 'b' is not a step"),
        (
            "- {id: a, job: work, on_error: {step: b}}\n- {id: b, job: work, on_error: {step: a}}",
            ":8: steps[0]: 'a' can never start",
        ),
        (
            "- {id: a, job: work, with: {x: '${steps.b.result}'}}\n- {id: b, job: work}",
            ":8: steps[0].with.x: ${steps.b.result} is used before step 'b' has ended; add it to needs",
        ),
        ("- {id: a, job: work, with: {x: '${steps.z.result}'}}", ":8: steps[0].with.x: ${steps.z.result}: 'z' is not"),
        ("- {id: a, job: work, with: {x: '${item}'}}", ":8: steps[0].with.x: ${item}: item and index are known only"),
        ("- {id: a, job: work, if: '${1 +}'}", ":8: steps[0].if: ${1 +}: Syntax error"),
        ("- {id: a, job: work, with: {x: '${input.a'}}", "an expression and a closing `}`"),
        ("- {id: a, job: work, for_each: 7}", ":8: steps[0].for_each: 7 is not a list, or one expression"),
        (
            f"- {{id: a, job: work, for_each: {[0] * 1001}}}",
            ":8: steps[0].for_each: 1,001 items; at most 1,000 are allowed",
        ),
        (
            "- {id: a, workflow: flow, retry: {max_retries: 1}}",
            ":8: steps[0].retry: a workflow is not retried",
        ),
        ("- {id: a, sleep: soon}", ":8: steps[0].sleep: 'soon' is not a duration"),
        ("- {id: a, sleep: 1s, retry: {max_retries: 2}}", ":8: steps[0].retry: a step with sleep has none"),
        ("- {id: a, job: work}\nretry: {max_retries: 2}", ":9: retry: unknown field"),
        ("- {id: a, job: work, session: s}", ":8: steps[0].session: unknown field"),
        ("- {id: a, parallel: yes}", ":8: steps[0].parallel: 'yes' is not a list of branches"),
        ("- {id: a, parallel: []}", ":8: steps[0].parallel: [] is not a list of branches"),
        ("- {id: a, parallel: [[]]}", ":8: steps[0].parallel: [[]] is not a list of branches"),
        ("- {id: a, job: work, parallel: [{id: b, job: work}]}", ":8: steps[0]: job and parallel are given together"),
        ("- {id: a, parallel: [{id: b, job: work}], lane: main}", ":8: steps[0].lane: a step with parallel has none"),
        (
            "- {id: a, parallel: [{id: b, job: work}], compensate: work}",
            ":8: steps[0].compensate: a step with parallel has none",
        ),
        (
            "- id: a\n  parallel:\n  - {id: b, job: wrk}",
            ":10: steps[0].parallel[0].job: 'wrk' is not declared; did you",
        ),
        (
            "- id: a\n  parallel:\n  - - {id: b, job: work}\n    - {id: c, sleep: soon}",
            ":11: steps[0].parallel[0][1].sleep: 'soon' is not a duration",
        ),
        (
            "- id: a\n  parallel:\n  - - {id: b, job: work}\n    - {id: c, job: work, with: {x: '${item}'}}",
            ":11: steps[0].parallel[0][1].with.x: ${item}: item and index are known only",
        ),
        (
            "- id: a\n  parallel:\n  - {id: b, job: work}\n  - {id: c, job: work, with: {x: '${steps.b.result}'}}",
            ":11: steps[0].parallel[1].with.x: ${steps.b.result} is used before step 'b' has ended; add it to needs",
        ),
        (
            "- {id: a, if: '${steps.b.result}', parallel: [{id: b, job: work}]}",
            ":8: steps[0].if: ${steps.b.result} is used before step 'b' has ended",
        ),
        (
            "- id: a\n  parallel: [{id: b, job: work}]\n- {id: b, job: work}",
            ":10: steps[1].id: 'b' is the id of steps[0].parallel[0] too",
        ),
        (
            "- id: a\n  parallel: [{id: b, job: work, needs: [c]}]\n- {id: c, job: work}",
            ":9: steps[0].parallel[0].needs[0]: 'c' is not inside 'a', as 'b' is",
        ),
        (
            "- id: a\n  parallel: [{id: b, job: work}]\n- {id: c, job: work, needs: [b]}",
            ":10: steps[1].needs[0]: 'b' is inside 'a', and 'c' is not; name 'a'",
        ),
        (
            "- id: a\n  parallel: [{id: b, job: work}, {id: d, job: work}]\n- {id: c, job: work, on_error: {step: d}}",
            ":10: steps[1].on_error.step: 'd' is inside 'a', and 'c' is not; name 'a'",
        ),
        (
            "- id: a\n  parallel:\n  - {id: b, job: work, needs: [c]}\n  - {id: c, job: work, needs: [b]}",
            ":10: steps[0].parallel[0].needs: 'b' needs 'c' needs 'b'; a cycle never starts",
        ),
        (
            "- id: a\n  parallel:\n"
            + "".join(
                f"  - - {{id: s{index}, job: work}}\n    - {{id: t{index}, job: work}}\n" for index in range(100)
            ),
            "steps: 201 given; at most 200 are allowed",
        ),
        ("- {id: a, job: work, compensate: wrk}", ":8: steps[0].compensate.job: 'wrk' is not declared; did you mean"),
        ("- {id: a, sleep: 1s, compensate: work}", ":8: steps[0].compensate: a step with sleep has none"),
        (
            "- {id: a, job: work, compensate: {job: work, with: {x: '${steps.a.result}'}}}",
            ":8: steps[0].compensate.with.x: ${steps.a.result}: steps is not known in a compensation; use input or",
        ),
        ("- {id: a, job: work, with: {x: '${result}'}}", ":8: steps[0].with.x: ${result} begins with none of input"),
        ("- {id: a, job: work}\nconstraints: {post_run_hook: {url: 'http://x'}}", "post_run_hook: a workflow has none"),
        (
            "\n".join(f"- {{id: s{index}, job: work}}" for index in range(201)),
            ":7: steps: 201 given; at most 200 are allowed",
        ),
    ],
)
def test_a_fault_names_its_line_and_field(steps: str, says: str) -> None:
    assert says in fault_of(FLOW + steps)


@pytest.mark.behaviour("TIM-12", "WFL-1")
def test_no_fault_of_a_workflow_hides_another() -> None:
    steps = """\
- {id: a, job: work, sleep: 1s, needs: [c]}
- {id: b, job: wrk, tiemout: 5m, needs: [x]}
- {id: b, job: 7.5.5@, with: {x: '${steps.d.result}'}}
- {id: c, jo: work, needs: [a]}
- {id: d, job: work, for_each: nope, with: {x: '${item}', y: '${steps.z.result}'}}
- {id: e, job: broken, compensate: nobody, on_error: {step: f}}
- {id: f, job: work, on_error: {step: g}}
- id: h
  parallel:
  - - {id: i, job: work, timeout: soon}
    - {id: j, workflow: work, lane: mian}
- {id: 'k@k', job: work, needs: [l]}
- {id: l, job: work, needs: [m]}
- {id: m, job: work, needs: [l]}
- 5
result: '${steps.n.result}'
---
kind: Job
id: broken
shedule: {every: 1h}
run: {shell: cat}
"""
    lines = fault_of(FLOW + steps).splitlines()
    found = [line.removeprefix("a.yaml:").split(": ", 2) for line in lines[1:]]
    assert [(int(line), field, rule.partition(";")[0].split()[-1]) for line, field, rule in found] == [
        (8, "steps[0]", "together"),
        (8, "steps[0].needs", "'a'"),  # a cycle
        (9, "steps[1].tiemout", "field"),
        (9, "steps[1].needs[0]", "step"),
        (9, "steps[1].job", "declared"),
        (10, "steps[2].job", "long"),
        (10, "steps[2].id", "too"),
        (10, "steps[2].with.x", "ended"),
        (11, "steps[3].jo", "field"),
        (12, "steps[4].for_each", "`${…}`"),
        (12, "steps[4].with.y", "step"),
        (13, "steps[5].compensate.job", "declared"),
        (14, "steps[6].on_error.step", "step"),
        (17, "steps[7].parallel[0][0].timeout", "duration"),
        (18, "steps[7].parallel[0][1].workflow", "job"),
        (19, "steps[8].id", "long"),
        (20, "steps[9].needs", "'l'"),
        (22, "steps[11]", "compensate"),
        (23, "result", "step"),
        (27, "shedule", "field"),
    ], "\n".join(lines)


def test_a_workflow_has_at_least_one_step() -> None:
    assert fault_of("kind: Workflow\nid: flow\nsteps: []\n") == "a.yaml:3: steps: is empty; give at least one step"


def test_two_steps_may_follow_the_errors_of_each_other() -> None:
    steps = """\
- {id: a, job: work, on_error: {step: b}}
- {id: b, job: work, on_error: {step: c}}
- {id: c, job: work, on_error: {step: b}}
"""
    assert [job.job.id for job in load([put(FLOW + steps)]).jobs] == ["work", "flow"]


def test_an_id_of_a_built_in_job_is_refused(app: il.App) -> None:
    text = "kind: Job\nid: interlock.sleep\nrun: {shell: cat}\n"
    assert ":2: id: 'interlock.sleep' begins with 'interlock.'" in fault_of(text)

    @app.workflow("interlock.order")
    async def order(ctx: il.WorkflowContext) -> None: ...

    faults = Faults()
    with pytest.raises(BadConfig, match=r"id: 'interlock\.order' begins with 'interlock\.', as only"):
        build([], faults, FromApp(definitions=app.definitions))


@pytest.mark.behaviour("WFL-6")
def test_a_compensation_with_capabilities_that_its_step_lacks() -> None:
    jobs = "kind: Job\nid: refund\ncapabilities: [money]\nrun: {shell: cat}\n---\n"
    steps = "- {id: a, job: work, compensate: refund}"
    assert ":13: steps[0].compensate: 'refund' has capabilities that its step lacks: money" in fault_of(
        jobs + FLOW + steps
    )


def test_arguments_that_a_compensation_does_not_take(app: il.App) -> None:
    @app.job("charge")
    def charge(cents: int) -> str:
        return str(cents)

    @app.job("refund")
    def refund(result: str) -> None: ...

    def check(compensate: str) -> str:
        step = f"{{id: a, job: charge, with: {{cents: 1}}, compensate: {compensate}}}"
        faults = Faults()
        with pytest.raises(BadConfig) as caught:
            build(read([put(f"kind: Workflow\nid: flow\nsteps:\n- {step}\n")], faults), faults,
                  FromApp(definitions=app.definitions))  # fmt: skip
        return str(caught.value)

    assert "a.yaml:4: steps[0].compensate: job 'refund' takes no argument 'cents'" in check("refund")
    assert "a.yaml:4: steps[0].compensate: job 'refund' needs argument 'result'" in check("{job: refund, with: {}}")


def test_arguments_that_a_function_does_not_take(app: il.App) -> None:
    @app.job("encode")
    def encode(chunk: str, quality: int = 1) -> str:
        return chunk

    def check(arguments: str) -> str:
        text = f"kind: Workflow\nid: flow\nsteps:\n- {{id: a, job: encode, with: {arguments}}}\n"
        faults = Faults()
        with pytest.raises(BadConfig) as caught:
            build(read([put(text)], faults), faults, FromApp(definitions=app.definitions))
        return str(caught.value)

    assert "a.yaml:4: steps[0].with: job 'encode' takes no argument 'chnk'" in check("{chnk: x}")
    assert "a.yaml:4: steps[0].with: job 'encode' needs argument 'chunk'" in check("{quality: 2}")

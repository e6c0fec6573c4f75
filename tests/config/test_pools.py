"""Pools in documents: what is read, what is refused, and what is doubtful."""

import pytest

from interlock.config.sources import FromApp, load
from interlock.error import BadConfig, BadValue
from interlock.model.job import Job
from interlock.model.pool import PoolSpec, PoolStatus, check_member
from interlock.worker.definition import Definition
from tests.config.writing import put, refused

pytestmark = pytest.mark.behaviour("ROU-1")

GPU = "kind: Pool\nid: gpu\ntopics: [train.*]\n"
JOB = "---\nkind: Job\nid: {0}\nrequires: [CUDA]\nrun: {{process: [dump]}}\n"
NEITHER = "neither the pool offers nor a declared job requires"


def test_documents_declare_pools() -> None:
    text = (
        GPU + "offers: [cuda]\nrequires: [Cuda]\nstatus: draining\n---\nkind: Pool\nid: all\ntopics: ['*', train.*]\n"
    )
    loaded = load([put(text + JOB.format("train.net"), "pools.yaml")], strict=True)
    assert loaded.pools == {
        "gpu": PoolSpec(topics=("train.*",), offers=("cuda",), requires=("Cuda",), status=PoolStatus.DRAINING),
        "all": PoolSpec(topics=("*", "train.*")),
    }
    assert loaded.summary() == "1 job, 0 services, 0 groups, 0 lanes and 2 pools"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Pool\nid: gpu\n", ["a.yaml:1: topics: missing"]),
        ("kind: Pool\nid: gpu\ntopics: []\n", ["a.yaml:3: topics: [] is not"]),
        ("kind: Pool\nid: gpu\ntopics: train\n", ["a.yaml:3: topics: 'train' is not"]),
        ("kind: Pool\nid: gpu\ntopics:\n- a\n- b\n- a\n", ["a.yaml:6: topics[2]: 'a' given twice; allowed once"]),
        ("kind: Pool\nid: a b\ntopics: [a]\n", ["a.yaml:2: id: 'a b' is not"]),
        ("kind: Pool\ntopics: [a]\n", ["a.yaml:1: id: missing"]),
        (GPU + "status: busy\n", ["a.yaml:4: status: 'busy' is not"]),
        (GPU + "requires: [a b]\n", ["a.yaml:4: requires[0]: 'a b' is not"]),
        (GPU + "offers: ['**']\n", ["a.yaml:4: offers[0]: '**' is not"]),
        (GPU + "offer: [cuda]\n", ["a.yaml:4: offer: unknown field; did you mean 'offers'?"]),
        (GPU + "---\n" + GPU, ["a.yaml:6: id: 'gpu' is declared twice, first at a.yaml:2"]),
    ],
)
def test_a_faulty_pool_is_refused(text: str, says: list[str]) -> None:
    put(text)
    assert refused("a.yaml") == says


@pytest.mark.behaviour("ROU-2")
@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (GPU + "requires: [cuda]\n" + JOB.format("train.net"), []),
        (GPU + "requires: [Cuda]\noffers: [cUDA]\n", []),
        (GPU + "requires: [cuda]\noffers: ['*']\n", []),
        (
            GPU + "requires: [ssd, Cud]\n" + JOB.format("train.net"),
            [
                f"a.yaml:4: requires[0]: {NEITHER} 'ssd'",
                f"a.yaml:4: requires[1]: {NEITHER} 'Cud'; did you mean 'cuda'?",
            ],
        ),
        (GPU + JOB.format("report"), ["a.yaml:6: job 'report': no active pool takes topic 'report'"]),
        (
            GPU + "status: draining\n" + JOB.format("train.net"),
            ["a.yaml:7: job 'train.net': no active pool takes topic 'train.net'"],
        ),
        (GPU + JOB.format("report") + "topic: train.report\n", []),
        (JOB.format("report"), []),  # nothing to miss without pools
    ],
)
def test_pools_and_jobs_that_miss_each_other_are_doubtful(text: str, warnings: list[str]) -> None:
    put(text)
    assert load(["a.yaml"]).warnings == warnings
    if warnings:
        with pytest.raises(BadConfig) as caught:
            load(["a.yaml"], strict=True)
        assert [line for line in str(caught.value).splitlines() if line.startswith("a.yaml")] == warnings


def test_jobs_of_an_app_are_looked_at_too() -> None:
    jobs = {"report": Definition(Job(id="report"), lambda: None)}
    (warning,) = load([put(GPU)], FromApp(target="jobs:app", definitions=jobs)).warnings
    assert warning.endswith(": job 'report': no active pool takes topic 'report'")


@pytest.mark.behaviour("ROU-2")
def test_who_may_be_in_which_pool() -> None:
    pools = {"gpu": PoolSpec(topics=("*",), requires=("cuda", "SSD")), "other": PoolSpec(topics=("*",))}
    for pool, capabilities in (("gpu", ["Cuda", "ssd", "more"]), ("other", []), ("default", [])):
        check_member(pools, pool, capabilities)
    check_member({}, "anything", [])
    with pytest.raises(BadValue, match=r"^pool: 'gpuu' is not declared; use one of gpu, other; did you mean 'gpu'\?$"):
        check_member(pools, "gpuu", [])
    with pytest.raises(BadValue, match=r"^capabilities: pool 'gpu' requires SSD; announce it with --capability$"):
        check_member(pools, "gpu", ["cuda"])

"""The reader port's list of runs: what fits a filter, newest first, page by page, without looking at everything."""

import itertools
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import asdict

from interlock.model.facets import Facets
from interlock.model.run import UNSUCCESSFUL, Run
from interlock.model.state import TERMINAL, State
from interlock.ports.store import MOST_LOOKED_AT, MOST_WITH_PREFIX, RunFilter, RunRows
from tests.contract.conftest import AnyStore
from tests.contract.samples import created, listed, make_run, pages, take, updated


def ended(run_id: str, state: State = State.SUCCEEDED, **fields: Any) -> Run:
    return make_run(run_id, state=state, ended_at=2000.0, **fields)


def assorted() -> list[Run]:
    """A run in every state, in each of them for some combination of all that can be filtered by."""
    places = itertools.product(("work", "play"), ("blue", "red"), (None, "s1", "s2"), ("main", "team"))
    runs = []
    for number, ((job, tenant, session, lane), state) in enumerate(zip(itertools.cycle(places), [*State] * 4)):
        fields = {"job_id": job, "tenant": tenant, "session": session, "lane": lane, "state": state,
                  "created_by": ("ann", "bob", "eve")[number % 3]}  # fmt: skip
        if number % 5 == 0:
            fields |= {"parent": f"p{number % 4}", "root": f"p{number % 2}"}
        end = 2000.0 if state in TERMINAL else None
        # The clock goes back now and then, so the time of creation is not the order of creation.
        runs.append(make_run(f"r{number:03}", **fields, created_at=1000.0 + number * 7 % 50, ended_at=end))
    return runs


FILTERS: dict[str, tuple[dict[str, Any], Any]] = {
    "state": ({"states": frozenset({State.RUNNING})}, lambda run: run.state == "running"),
    "states": (
        {"states": frozenset({State.SUCCEEDED, State.PENDING, State.FAILED})},
        lambda run: run.state in ("succeeded", "pending", "failed"),
    ),
    "waiting": (
        {"states": frozenset({State.SCHEDULED, State.RETRYING})},
        lambda run: run.state in ("scheduled", "retrying"),
    ),
    "gone wrong": ({"states": UNSUCCESSFUL}, lambda run: run.state in UNSUCCESSFUL),
    "failed": ({"states": frozenset({State.FAILED})}, lambda run: run.state == "failed"),
    "id": ({"id_prefix": "r02"}, lambda run: run.id.startswith("r02")),
    "job": ({"job_id": "play"}, lambda run: run.job_id == "play"),
    "tenant": ({"tenant": "blue"}, lambda run: run.tenant == "blue"),
    "session": ({"session": "s1"}, lambda run: run.session == "s1"),
    "lane": ({"lane": "team"}, lambda run: run.lane == "team"),
    "created by": ({"created_by": "bob"}, lambda run: run.created_by == "bob"),
    "parent": ({"parent": "p1"}, lambda run: run.parent == "p1"),
    "root": ({"root": "p1"}, lambda run: run.root == "p1"),
    "text": ({"text": "R01"}, lambda run: "r01" in run.id),
    "since": ({"since": 1020.0}, lambda run: run.created_at >= 1020.0),
    "until": ({"until": 1030.0}, lambda run: run.created_at < 1030.0),
    "live": ({"live": True}, lambda run: run.ended_at is None),
    "ended": ({"live": False}, lambda run: run.ended_at is not None),
}


async def test_live_runs_are_counted_by_job(store: AnyStore) -> None:
    assert await store.live_counts() == {}
    lease = await take(store)
    runs = assorted()
    await store.commit(created(*runs, ended("over", job_id="rare")), lease)
    for tenant in (None, "blue", "nobody"):
        live = [run.job_id for run in runs if run.ended_at is None and tenant in (None, run.tenant)]
        assert await store.live_counts(tenant) == dict(Counter(live))


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_a_filter_finds_what_fits_all_of_it_newest_first(store: AnyStore, size: int) -> None:
    lease = await take(store)
    runs = assorted()
    await store.commit(created(*runs), lease)
    found = 0
    for names in itertools.combinations(FILTERS, size):
        given = [FILTERS[name] for name in names]
        if len({field for fields, _ in given for field in fields}) < size:
            continue  # two values for one field
        wanted = RunFilter(**{field: value for fields, _ in given for field, value in fields.items()})
        fitting = [run.id for run in reversed(runs) if all(fits(run) for _, fits in given)]
        assert await listed(store, wanted) == fitting, names
        found += len(fitting)
    assert found > 100


async def test_nothing_fits_what_no_run_has(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(created(*assorted()), lease)
    for wanted in (
        RunFilter(job_id="wor"),
        RunFilter(tenant=""),
        RunFilter(id_prefix="R0"),
        RunFilter(id_prefix="r0%"),
        RunFilter(session="S1"),
        RunFilter(since=5000.0),
        RunFilter(live=True, states=frozenset({State.SUCCEEDED})),
        RunFilter(live=False, states=frozenset({State.RUNNING})),
        RunFilter(live=True, states=frozenset({State.FAILED})),
    ):
        assert await store.runs(wanted, None, 10) == RunRows([], None)


async def test_a_run_is_listed_as_it_is_stored_but_for_payload_and_result(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(created(make_run("r1", payload=b"12345", session="s")), lease)
    await store.commit(updated(ended("r1", seq=9, result=b"67890", error="text", previous=None)), lease)
    (run,) = (await store.runs(RunFilter(), None, 10)).runs
    whole = await store.run("r1")
    assert whole is not None
    assert (whole.payload, whole.result) == (b"12345", b"67890")
    assert asdict(run) == asdict(whole) | {"payload": None, "result": None}
    assert run.state is State.SUCCEEDED


async def test_a_run_moves_between_the_lists_as_it_goes_on(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(created(make_run("a"), make_run("b"), make_run("c")), lease)
    steps = [make_run("b", seq=5, state=State.RUNNING), ended("a", State.FAILED, seq=6), ended("c", seq=6)]
    for run in [*steps, ended("c", State.OUTPUT_QUARANTINED, seq=7)]:
        await store.commit(updated(run), lease)
        await store.commit(updated(run), lease)
    assert await listed(store, RunFilter(live=True)) == ["b"]
    assert await listed(store, RunFilter(states=UNSUCCESSFUL)) == ["c", "a"]
    assert await listed(store, RunFilter(states=frozenset({State.SUCCEEDED}))) == []
    assert await listed(store) == ["c", "b", "a"]


@pytest.mark.parametrize("limit", [1, 2, 7, 9, 10, 11])
@pytest.mark.parametrize("live", [None, True, False])
async def test_pages_have_every_run_once_while_runs_are_created_between_them(
    store: AnyStore, limit: int, live: bool | None
) -> None:
    lease = await take(store)
    wanted = RunFilter(live=live, states=UNSUCCESSFUL if live is False else frozenset())
    make = (lambda run_id: ended(run_id, State.FAILED)) if live is False else make_run
    await store.commit(created(*(make(f"r{number}") for number in range(10))), lease)
    found: list[str] = []
    page = await store.runs(wanted, None, limit)
    for number in itertools.count():
        found += [run.id for run in page.runs]
        assert len(page.runs) == min(limit, 10 - number * limit)
        if page.next is None:
            break
        await store.commit(created(make(f"later {number}")), lease)
        page = await store.runs(wanted, page.next, limit)
    assert found == [f"r{number}" for number in reversed(range(10))]
    assert number == -(-10 // limit) - 1, "no page more than there need be"


async def test_pages_of_a_filter_while_runs_end_between_them(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(created(*(make_run(f"r{number}") for number in range(6))), lease)
    first = await store.runs(RunFilter(live=True), None, 2)
    await store.commit(updated(ended("r4", seq=9), ended("r3", seq=9), ended("r1", seq=9)), lease)
    second = await store.runs(RunFilter(live=True), first.next, 2)
    assert [run.id for run in first.runs] == ["r5", "r4"]
    assert [run.id for run in second.runs] == ["r2", "r0"]
    assert second.next is None


@pytest.mark.parametrize(
    "wanted", [RunFilter(), RunFilter(live=True), RunFilter(states=UNSUCCESSFUL), RunFilter(job_id="work")]
)
async def test_a_cursor_may_be_any_number(store: AnyStore, wanted: RunFilter) -> None:
    lease = await take(store)
    await store.commit(created(make_run("a"), ended("b", State.FAILED)), lease)
    everything = await store.runs(wanted, None, 10)
    for before in (-(2**80), -1, 0, 1):
        assert await store.runs(wanted, before, 10) == RunRows([], None)
    for before in (3, 1_000_000, 2**63 - 1, 2**63, 2**80):
        assert await store.runs(wanted, before, 10) == everything


async def test_one_call_looks_at_so_many_runs_at_the_most(store: AnyStore) -> None:
    lease = await take(store)
    rare = [make_run("first", tenant="rare", job_id="rare"), ended("failed", State.FAILED, job_id="rare")]
    await store.commit(created(*rare), lease)
    common = [ended(f"c{number}") for number in range(MOST_LOOKED_AT)]
    await store.commit(created(*common), lease)
    await store.commit(created(ended("last", tenant="rare")), lease)

    found = await pages(store, RunFilter(tenant="rare"))
    assert [[run.id for run in page.runs] for page in found] == [["last"], ["first"]]
    found = await pages(store, RunFilter(tenant="nobody"))
    assert [page.runs for page in found] == [[], []]
    assert [run.id for run in (await store.runs(RunFilter(), found[0].next, 1)).runs] == ["c0"]

    for wanted, run_id in (
        (RunFilter(live=True), "first"),
        (RunFilter(states=frozenset({State.SCHEDULED, State.RUNNING})), "first"),
        (RunFilter(states=frozenset({State.FAILED})), "failed"),
        (RunFilter(states=UNSUCCESSFUL, live=False), "failed"),
        (RunFilter(job_id="rare", live=False), "failed"),
        (RunFilter(job_id="rare", tenant="rare"), "first"),
        (RunFilter(id_prefix="firs"), "first"),
    ):
        page = await store.runs(wanted, None, 10)
        assert [run.id for run in page.runs] == [run_id], "runs that succeeded, or are of other jobs, are not looked at"
        assert page.next is None


async def test_a_prefix_looks_at_the_last_ids_alone(store: AnyStore) -> None:
    lease = await take(store)
    ids = [f"a{number:05}" for number in range(MOST_WITH_PREFIX + 2)]
    # Created in another order than that of their ids.
    runs = [ended(run_id, tenant="rare" if run_id in (ids[1], ids[2]) else "default") for run_id in reversed(ids)]
    await store.commit(created(ended("b"), *runs, ended("0")), lease)

    found = await pages(store, RunFilter(id_prefix="a"), 300)
    assert [run.id for page in found for run in page.runs] == ids[2:]
    (page,) = await pages(store, RunFilter(id_prefix="a", tenant="rare"))
    assert [run.id for run in page.runs] == [ids[2]]
    (page,) = await pages(store, RunFilter(id_prefix=ids[0], job_id=runs[0].job_id))
    assert [run.id for run in page.runs] == [ids[0]]


async def test_looking_is_bounded_among_live_and_failed_runs_too(store: AnyStore) -> None:
    lease = await take(store)
    for name, make in (("live", make_run), ("failed", lambda run_id: ended(run_id, State.FAILED))):
        runs = [make(f"{name} {number}") for number in range(MOST_LOOKED_AT + 1)]
        runs[0].tenant = runs[1].tenant = "rare"
        for run in runs:
            run.job_id = name
        await store.commit(created(*runs), lease)
    for name, wanted in (
        ("live", RunFilter(live=True, tenant="rare")),
        ("failed", RunFilter(states=UNSUCCESSFUL, tenant="rare")),
        ("failed", RunFilter(job_id="failed", tenant="rare")),
    ):
        found = await pages(store, wanted)
        assert [[run.id for run in page.runs] for page in found] == [[f"{name} 1"], [f"{name} 0"]]


@pytest.mark.behaviour("OBS-4")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cuda out of", ["e"]),
        ("CUDA OUT OF MEMORY", ["e"]),
        ("TRAIN.", ["e", "d"]),
        ("chat-7", ["c"]),
        ("team=RED", ["b"]),
        ("team=r", ["b"]),
        ("not needed", ["a"]),
        ("straße", ["d"]),
        ("STRASSE", ["d"]),
        ("100%", ["d"]),
        ("\0", ["d"]),
        ("secret", []),
        ("r_d", []),
    ],
)
async def test_a_text_is_found_wherever_a_person_would_look(store: AnyStore, text: str, wanted: list[str]) -> None:
    runs = [
        make_run("a", state=State.CANCELLED, ended_at=2.0, reason="not needed"),
        make_run("b", facets=Facets(labels={"team": "Red", "note": "x"})),
        make_run("c", session="chat-7", payload=b'{"text": "secret"}'),
        make_run("d", job_id="train.more", error="Straße: 100% full\0 secre"),
        make_run("e", job_id="train.net", error="RuntimeError: CUDA out of memory", facets=Facets(progress=None)),
    ]
    await store.commit(created(*runs), await take(store))
    assert await listed(store, RunFilter(text=text)) == wanted
    assert await listed(store, RunFilter(text=text, job_id="train.net")) == [one for one in wanted if one == "e"]


@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(text="rare"),
        RunFilter(text="rare", states=UNSUCCESSFUL, live=False, is_step=False),  # what a bulk retry asks for
        RunFilter(text="rare", job_id="work", states=frozenset({State.FAILED, State.RUNNING})),
    ],
)
async def test_a_search_looks_at_1000_runs_and_says_how_far_back_that_was(store: AnyStore, wanted: RunFilter) -> None:
    runs = [
        ended(f"r{number:04}", State.FAILED, job_id="work", created_at=1000.0 + number, error="rare" * rare)
        for number in range(2500)
        for rare in [number in (3, 2400)]
    ]
    await store.commit(created(*runs), await take(store))
    found = await pages(store, wanted, 64)
    assert [[run.id for run in page.runs] for page in found] == [["r2400"], [], ["r0003"]]
    assert [page.reached for page in found] == [2500.0, 1500.0, None], "at the end, everything was looked at"
    assert (await store.runs(RunFilter(), None, 5)).reached is None

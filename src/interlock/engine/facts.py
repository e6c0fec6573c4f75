"""Read the facts that a step needs, for the whole batch at once."""

import logging
from collections.abc import Iterable
from math import inf

from msgspec.structs import replace

from interlock.core.facts import Facts, Needs
from interlock.core.sessions.session import memo_name
from interlock.core.workflows.take_over import MOST_BYTES
from interlock.error import StoreUnavailable
from interlock.fields import payload
from interlock.model.facets import StepFacet
from interlock.model.letter import CODE_OF, DeadLetter
from interlock.model.record import Memo, Record
from interlock.model.run import Run, RunFilter
from interlock.model.state import State
from interlock.ports.store import MOST_PRUNED, Lookup, Store

logger = logging.getLogger("interlock.engine")

STEPS = 50  # steps that are read at once, each with a payload and a result of up to 1 MiB


async def read(needs: Needs, store: Store, now: float) -> Facts:
    found = await store.look_up(
        Lookup(
            keys=needs.keys, digests=needs.digests, states=needs.states, runs=needs.runs, pruned=needs.runs,
            versions=needs.versions, records=needs.records,
            # Past times cannot come again; one second less includes the current one.
            latest_times=needs.latest, after=now - 1,
        )
    )  # fmt: skip
    facts = Facts(
        keys=found.keys, digests={**found.digests}, states=dict.fromkeys(needs.states) | found.states, runs=found.runs,
        pruned=found.pruned, versions=found.versions, latest=found.latest_times, records=found.records,
    )  # fmt: skip
    await _find_missing(needs, facts, store)
    if keys := [(facts.runs[run_id].tenant, key) for run_id, key in needs.retries if run_id in facts.runs]:
        known = (await store.look_up(Lookup(keys=keys))).keys
        facts.keys |= known
        await _read_runs([run_id for run_id, _ in known.values()], facts, store)
    for run_id in needs.steps:
        facts.steps[run_id] = await _read_steps(run_id, store)
    for wanted in needs.letters:
        page = await store.records(DeadLetter, wanted.records, None, MOST_PRUNED)
        while not page.records and page.next is not None:
            page = await store.records(DeadLetter, wanted.records, page.next, MOST_PRUNED)
        facts.letters[wanted] = [letter.id for letter in page.records], page.next is not None
    await _read_records_of([*facts.runs.values(), *await _read_pages(needs, facts, store)], facts, store)
    return facts


async def _find_missing(needs: Needs, facts: Facts, store: Store) -> None:
    """Add digests of runs that had no key, and states of pruned runs."""
    undigested = [run_id for run_id in needs.digests if run_id not in facts.digests]
    stateless = [run_id for run_id, state in facts.states.items() if state is None]
    jobs = {job_id for job_id, _ in needs.passed.values()}
    if undigested or stateless:
        found = await store.look_up(Lookup(inputs=undigested, digests=stateless, first_times=jobs))
        for run_id, inputs in found.inputs.items():
            facts.digests[run_id] = payload.digest(needs.digests[run_id], inputs.payload)
        facts.states.update(dict.fromkeys(found.digests, State.SUCCEEDED))
        _find_pruned(needs, facts, found.first_times)


def _find_pruned(needs: Needs, facts: Facts, first_times: dict[str, float]) -> None:
    """Mark the occurrences that a schedule created and pruning removed: past ones that are older than any stored run of
    it. A later one that is missing was never created, for example because of a pause."""
    for run_id, (job_id, at) in needs.passed.items():
        is_known = run_id in facts.digests or facts.states.get(run_id)
        if not is_known and at < first_times.get(job_id, inf):
            if run_id in needs.digests:
                facts.digests[run_id] = None
            if run_id in needs.states:
                facts.states[run_id] = State.SUCCEEDED


async def _read_runs(run_ids: Iterable[str], facts: Facts, store: Store) -> None:
    wanted = list(run_ids)
    found = await store.look_up(Lookup(runs=wanted, pruned=wanted))
    facts.runs |= found.runs
    facts.pruned |= found.pruned


async def _read_steps(run_id: str, store: Store) -> list[Run] | None:
    """Return the ended steps of a workflow run, and items with a compensation; None if they are too large."""
    found: list[Run] = []
    left = [step.run_id for step in (await store.look_up(Lookup(steps=[run_id]))).steps.get(run_id, [])]
    size = 0
    while left:
        ids, left = left[:STEPS], left[STEPS:]
        for run in (await store.look_up(Lookup(runs=ids))).runs.values():
            step = run.facets and run.facets.step
            if not isinstance(step, StepFacet) or (run.parent != run_id and step.undo is None):
                continue
            found.append(run)
            size += len(run.payload or b"") + len(run.result or b"")
            if step.items is not None:
                left += [item.run_id for item in (await store.look_up(Lookup(steps=[run.id]))).steps.get(run.id, [])]
        if size > MOST_BYTES:
            return None
    return found


async def _read_pages(needs: Needs, facts: Facts, store: Store) -> list[Run]:
    """Read the pages of bulk requests, and return all of their runs. One that cannot be read stops nothing else."""
    every: list[Run] = []
    for bulk_id, asked in needs.pages.items():
        try:
            facts.pages[bulk_id] = runs, _ = await _read_page(*asked, store)
        except StoreUnavailable as error:
            logger.warning("bulk request %s: a page of runs is read again later: %s", bulk_id, error)
            facts.pages[bulk_id] = None
        else:
            every += runs
    return every


async def _read_page(wanted: RunFilter, before: int | None, size: int, store: Store) -> tuple[list[Run], int | None]:
    if wanted.letters is not None:
        letters = await store.records(DeadLetter, wanted.letters.records, before, size)
        found = await store.look_up(Lookup(runs=[letter.id for letter in letters.records]))
        return list(found.runs.values()), letters.next
    page = await store.runs(wanted, before, size)
    inputs = (await store.look_up(Lookup(inputs=[run.id for run in page.runs]))).inputs
    return [replace(run, payload=inputs[run.id].payload) for run in page.runs if run.id in inputs], page.next


async def _read_records_of(runs: Iterable[Run], facts: Facts, store: Store) -> None:
    """Read the records of runs that may be retried: a retry goes into the session of its run, which may be idle, and is
    noted in its dead letter."""
    wanted: list[tuple[type[Record], str]] = []
    for run in runs:
        if run.state in CODE_OF:
            wanted.append((DeadLetter, run.id))
        if run.session is not None:
            wanted.append((Memo, memo_name(run.tenant, run.session)))
    if wanted:
        facts.records |= (await store.look_up(Lookup(records=wanted))).records

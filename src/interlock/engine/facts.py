"""Read the facts that a step needs, for the whole batch at once."""

from collections.abc import Iterable
from math import inf

from msgspec.structs import replace

from interlock.core.facts import Facts, Needs
from interlock.core.session import memo_name
from interlock.fields import payload
from interlock.model.letter import CODE_OF, DeadLetter
from interlock.model.record import Memo, Record
from interlock.model.run import Run
from interlock.model.state import State
from interlock.ports.store import MOST_PRUNED, Store


async def read(needs: Needs, store: Store, now: float) -> Facts:
    facts = Facts()
    if needs.keys:
        facts.keys = await store.known_keys(list(needs.keys))
    if needs.digests:
        facts.digests.update(await store.digests(list(needs.digests)))
        missing = [one for one in needs.digests if one not in facts.digests]
        for run_id, found in (await store.inputs(missing) if missing else {}).items():
            facts.digests[run_id] = payload.digest(needs.digests[run_id], found.payload)
    if needs.states:
        facts.states = dict.fromkeys(needs.states)
        facts.states.update(await store.states(list(needs.states)))
        missing = [one for one, state in facts.states.items() if state is None]
        facts.states.update(dict.fromkeys(await store.digests(missing) if missing else (), State.SUCCEEDED))
    if needs.passed:
        await _find_pruned(needs, facts, store)
    if needs.latest:
        # Past times cannot come again; one second less includes the current one.
        facts.latest = await store.latest_times(list(needs.latest), now - 1)
    await _read_runs(needs.runs, facts, store)
    versions = [await store.definition(version) for version in needs.versions]
    facts.versions = {job.version: job for job in versions if job is not None}
    if keys := [(facts.runs[run_id].tenant, key) for run_id, key in needs.retries if run_id in facts.runs]:
        known = await store.known_keys(keys)
        facts.keys |= known
        await _read_runs([run_id for run_id, _ in known.values()], facts, store)
    for one in needs.letters:
        page = await store.records(DeadLetter, one.records, None, MOST_PRUNED)
        facts.letters[one] = [letter.id for letter in page.records], page.next is not None
    retried = list(facts.runs.values()) + await _read_pages(needs, facts, store)
    # A retry goes into the session of its run, which may be idle, and is noted in its dead letter.
    further: dict[tuple[type[Record], str], None] = {
        (DeadLetter, run.id): None for run in retried if run.state in CODE_OF
    }
    further |= {(Memo, memo_name(run.tenant, run.session)): None for run in retried if run.session is not None}
    read_all = {key: await store.record(*key) for key in needs.records | further}
    facts.records = {(kind.kind, id): record for (kind, id), record in read_all.items() if record is not None}
    return facts


async def _read_pages(needs: Needs, facts: Facts, store: Store) -> list[Run]:
    """Read the pages of bulk requests, and return all of their runs."""
    found: list[Run] = []
    for bulk_id, (wanted, before, size) in needs.pages.items():
        if wanted.letters is not None:
            letters = await store.records(DeadLetter, wanted.letters.records, before, size)
            read = [await store.run(letter.id) for letter in letters.records]
            runs, following = [run for run in read if run is not None], letters.next
        else:
            page = await store.runs(wanted, before, size)
            inputs = await store.inputs([run.id for run in page.runs]) if page.runs else {}
            runs = [replace(run, payload=inputs[run.id].payload) for run in page.runs if run.id in inputs]
            following = page.next
        facts.pages[bulk_id] = (runs, following)
        found += runs
    return found


async def _read_runs(run_ids: Iterable[str], facts: Facts, store: Store) -> None:
    for run_id in run_ids:
        if (run := await store.run(run_id)) is not None:
            facts.runs[run_id] = run
        elif await store.tenant_of_pruned(run_id) is not None:
            facts.pruned.add(run_id)


async def _find_pruned(needs: Needs, facts: Facts, store: Store) -> None:
    """Mark the occurrences that a schedule created and pruning removed: past ones that are older than any stored run of
    it. A later one that is missing was never created, for example because of a pause."""
    missing = {one: at for one, at in needs.passed.items() if one not in facts.digests and not facts.states.get(one)}
    first = await store.first_times(list({job_id for job_id, _ in missing.values()})) if missing else {}
    for run_id, (job_id, at) in missing.items():
        if at < first.get(job_id, inf):
            if run_id in needs.digests:
                facts.digests[run_id] = None
            if run_id in needs.states:
                facts.states[run_id] = State.SUCCEEDED

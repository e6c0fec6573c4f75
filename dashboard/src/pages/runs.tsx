// Runs: filters in the address, live, and actions on exactly the runs that the filters choose.
import * as op from '../operations'
import { useEffect, useState } from 'preact/hooks'
import { Action, type Act } from '../action'
import { ask } from '../api'
import { Ago, At, Copy, JobLink, RunLink, Section, Shown, Text, Took } from '../bits'
import { useRead } from '../live'
import { filter, here, Link, to } from '../route'
import { StateMark, wordOf } from '../state'
import { Table, type Column } from '../table'
import { command, plural } from '../text'
import { STATES, TERMINAL, type BulkInfo, type RunInfo, type State } from '../types'

export const NAMES = ['text', 'job', 'lane', 'tenant', 'session', 'since', 'parent', 'root'] as const

export const RUN_COLUMNS: Column<RunInfo>[] = [
  { title: 'State', cell: (run) => <StateMark state={run.state} /> },
  { title: 'Run', mono: true, cell: (run) => <RunLink id={run.id} /> },
  { title: 'Job', cell: (run) => <JobLink id={run.job_id} /> },
  { title: 'Lane', spare: 2, cell: (run) => <Text>{run.lane}</Text> },
  { title: 'Tenant', spare: 1, cell: (run) => (run.tenant === 'default' ? null : <Text>{run.tenant}</Text>) },
  { title: 'Session', spare: 1, cell: (run) => (run.session ? <Text>{run.session}</Text> : null) },
  { title: 'Age', right: true, cell: (run) => <Ago at={run.created_at} bare /> },
  { title: 'Took', right: true, spare: 3, cell: (run) => (run.started_at ? <Took from={run.started_at} until={run.ended_at} /> : null) },
  { title: 'What', wide: true, cell: (run) => <Text>{whatOf(run)}</Text> },
]

/** What happened to it, or what it does. */
export function whatOf(run: RunInfo): string {
  if (run.error && run.state !== 'succeeded') return run.error.trimEnd().split('\n').at(-1)!
  if (run.progress && !(TERMINAL as readonly string[]).includes(run.state)) return `${Math.round(run.progress.percent)} % ${run.progress.text}`
  return run.reason && run.reason !== run.state ? run.reason : ''
}

export function queryOf(query: URLSearchParams) {
  const since = query.get('since')
  return {
    ...Object.fromEntries(NAMES.filter((name) => name !== 'since').map((name) => [name, query.get(name) ?? undefined])),
    since: since ? sinceOf(since) : undefined,
    state: query.getAll('state').filter((state): state is State => (STATES as readonly string[]).includes(state)),
    live: query.get('live') === 'true' ? true : undefined,
  }
}

/** `1h` is the last hour; anything else is a time as it is. */
function sinceOf(text: string): string {
  const found = /^(\d+)([smhd])$/.exec(text)
  if (!found) return text
  const seconds = Number(found[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[found[2] as 's' | 'm' | 'h' | 'd']
  return new Date((Math.floor(Date.now() / 10_000) * 10 - seconds) * 1000).toISOString()
}

const VIEWS: [string, string][] = [
  ['All', ''],
  ['Live', 'live=true'],
  ['Running', 'state=running'],
  ['Waiting', 'state=scheduled&state=pending&state=retrying'],
  ['Unsuccessful', 'state=failed&state=timeout&state=orphaned&state=denied&state=output_quarantined'],
]

export function Runs() {
  const query = here.value.query
  const text = query.toString()
  const [pages, setPages] = useState<{ key: string; more: RunInfo[]; next: string | null } | null>(null)
  const reading = useRead(`runs?${text}`, () => ask(op.runs, { query: { ...queryOf(query), limit: 100 } }), ['run'])
  const extra = pages?.key === text ? pages : null
  const next = extra ? extra.next : reading.data?.next
  const more = async () => {
    const page = await ask(op.runs, { query: { ...queryOf(query), limit: 100, cursor: next! } })
    setPages({ key: text, more: [...(extra?.more ?? []), ...page.runs], next: page.next })
  }
  return (
    <>
      <div class="title">
        <h1>Runs</h1>
        <nav class="views" aria-label="Views">
          {VIEWS.map(([title, view]) => (
            <Link key={title} to={view ? `runs?${view}` : 'runs'} current={text === view}>
              {title}
            </Link>
          ))}
        </nav>
        <span class="grow" />
        <Many query={query} />
      </div>
      <Filters query={query} />
      <Section title="Runs, newest first" id="runs">
        <Shown of={reading} rows={12}>
          {(page) => {
            const seen = new Set(page.runs.map((run) => run.id))
            const runs = [...page.runs, ...(extra?.more.filter((run) => !seen.has(run.id)) ?? [])]
            return (
              <>
                <Table
                  name="Runs"
                  columns={RUN_COLUMNS}
                  items={runs}
                  id={(run) => run.id}
                  open={(run) => to('runs', run.id)}
                  empty={
                    text ? (
                      <>
                        No run matches. <Link to="runs">All runs</Link>
                      </>
                    ) : (
                      <>
                        No runs yet. <code>interlock submit JOB</code> <Copy text="interlock submit JOB" />
                      </>
                    )
                  }
                />
                {next && (
                  <p>
                    <button type="button" class="quiet" onClick={() => void more()}>
                      Older runs
                    </button>{' '}
                    {page.reached && !extra && <span class="faint">searched back to <At at={page.reached} /></span>}
                  </p>
                )}
              </>
            )
          }}
        </Shown>
      </Section>
    </>
  )
}

function Filters({ query }: { query: URLSearchParams }) {
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      {(['text', 'job', 'lane', 'tenant', 'session', 'since'] as const).map((name) => (
        <Field key={name} name={name} value={query.get(name) ?? ''} search={name === 'text'} hint={name === 'since' ? '1h, 2d' : ''} />
      ))}
      <label>
        <span>state</span>
        <select value={query.getAll('state')[0] ?? ''} onChange={(event) => filter({ state: event.currentTarget.value || null, live: null })}>
          <option value="">{query.getAll('state').length > 1 ? `${query.getAll('state').length} states` : 'any'}</option>
          {STATES.map((state) => (
            <option key={state} value={state}>
              {wordOf(state)}
            </option>
          ))}
        </select>
      </label>
      {query.get('parent') || query.get('root') ? (
        <span class="chip">
          made by <RunLink id={query.get('parent') ?? query.get('root')!} />{' '}
          <button type="button" class="quiet" aria-label="Remove this filter" onClick={() => filter({ parent: null, root: null })}>
            ✕
          </button>
        </span>
      ) : null}
    </form>
  )
}

function Field({ name, value, search, hint }: { name: string; value: string; search?: boolean; hint?: string }) {
  const [text, set] = useState(value)
  useEffect(() => set(value), [value])
  return (
    <label>
      <span>{name}</span>
      <input
        type={(search ? 'search' : 'text') as 'search'}
        value={text}
        placeholder={hint || 'any'}
        onInput={(event) => set(event.currentTarget.value)}
        onChange={() => filter({ [name]: text.trim() || null })}
        onKeyDown={(event) => event.key === 'Enter' && filter({ [name]: text.trim() || null })}
      />
    </label>
  )
}

const BULK = { cancel: op.cancel_many, hold: op.hold_many, release: op.release_many, retry: op.retry_many }

/** Actions on every run that the filters choose, and on no other. */
function Many({ query }: { query: URLSearchParams }) {
  const chosen = queryOf(query)
  const { live: _, ...rest } = chosen
  const body = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined && (!Array.isArray(value) || value.length)))
  const isFiltered = Object.keys(body).length > 0
  const words = Object.entries(body).map(([name, value]) => `${name} ${Array.isArray(value) ? value.map(wordOf).join(' or ') : value}`)
  const ends = chosen.state.length > 0 && chosen.state.every((state) => (TERMINAL as readonly string[]).includes(state))
  const act = (verb: keyof typeof BULK, says: string): Act => ({
    operation: BULK[verb],
    title: `${verb[0]!.toUpperCase()}${verb.slice(1)} runs`,
    bad: verb === 'cancel',
    button: `${verb[0]!.toUpperCase()}${verb.slice(1)} them`,
    says: (
      <>
        <p>
          {says} {isFiltered ? <>It takes exactly the runs with {words.join(', ')}, on every page of the list.</> : 'It takes every run.'}
        </p>
        <p class="faint">Runs created after this are left alone. The server goes on with it even if you leave.</p>
      </>
    ),
    preview: async () => {
      const found = await ask(BULK[verb], { body: { ...body, ...(isFiltered ? {} : { all: true }), dry_run: true } })
      return `${(found.matching ?? 0) >= 10_000 ? '10,000 runs or more' : plural(found.matching ?? 0, 'run')} at this moment.`
    },
    fields: [{ name: 'reason', label: 'Reason', value: '' }],
    command: ({ reason }) =>
      command(
        verb,
        ...NAMES.flatMap((name) => (query.get(name) ? [`--${name}`, query.get(name)!] : [])),
        ...chosen.state.flatMap((state) => ['--state', state]),
        !isFiltered && '--all',
        ...(reason ? ['--reason', reason] : []),
      ),
    run: async ({ reason }, key) => {
      const bulk: BulkInfo = await ask(BULK[verb], { body: { ...body, ...(isFiltered ? {} : { all: true }), reason: reason ?? '' }, key })
      return `${says.replace(/\.$/, '')}: ${bulk.left === null ? 'under way' : plural(bulk.left, 'run')} to look at, request ${bulk.id}`
    },
  })
  return (
    <details class="menu">
      <summary>Act on these</summary>
      <div>
        {ends ? (
          <Action act={act('retry', 'Run again every run that ended without success.')} label="Retry…" />
        ) : (
          <>
            <Action act={act('cancel', 'Cancel every run that has not ended.')} label="Cancel…" />
            <Action act={act('hold', 'Hold every run that has not begun.')} label="Hold…" />
            <Action act={act('release', 'Release every held run.')} label="Release…" />
          </>
        )}
      </div>
    </details>
  )
}

// Run: why it is where it is, its attempts to scale, its log while it is written, what went in and came out.
import * as op from '../operations'
import { useMemo } from 'preact/hooks'
import { Action, type Act } from '../action'
import { ask, Problem } from '../api'
import { Ago, At, Copy, Empty, JobLink, Linked, RunLink, Section, Shown, Text, Trouble } from '../bits'
import { now, told, useRead } from '../live'
import { Log } from '../log'
import { filter, here, Link, to } from '../route'
import { familyOf, StateMark, wordOf } from '../state'
import { Table } from '../table'
import { Long, Tree } from '../tree'
import { command, count, line, secondsOf, span } from '../text'
import { TERMINAL, type Explanation, type HistoryEntry, type RunDetail } from '../types'
import { Steps } from './steps'

const isWithheld = (run: RunDetail) => run.state === 'output_quarantined' && !run.facets.output?.released_at
export const hasEnded = (run: { state: string }) => (TERMINAL as readonly string[]).includes(run.state)

export function Run({ id }: { id: string }) {
  const run = useRead(`run ${id}`, () => ask(op.run, { path: { run_id: id } }), ['run', 'progress'])
  const why = useRead(`why ${id}`, () => ask(op.explanation, { path: { run_id: id } }), ['run'], () => true, run.data && !hasEnded(run.data) ? 3000 : 0)
  if (run.problem && !run.data) return <Lost id={id} problem={run.problem} again={run.again} />
  return (
    <Shown of={run} rows={10}>
      {(found) => (
        <>
          <Head run={found} again={() => (run.again(), why.again())} />
          <Why of={why.data} run={found} />
          <Attempts run={found} entries={told.value.run === id ? told.value.history : []} />
          <Tabs run={found} why={why.data} />
        </>
      )}
    </Shown>
  )
}

function Lost({ id, problem, again }: { id: string; problem: unknown; again: () => void }) {
  if (problem instanceof Problem && problem.code === 'unknown_run')
    return (
      <Empty>
        There is no run <code><Text>{id}</Text></code>, or it belongs to a tenant that you do not see. <Link to="runs">All runs</Link>
      </Empty>
    )
  if (problem instanceof Problem && problem.code === 'run_pruned')
    return (
      <Empty>
        This run ended and was pruned: <Text>{problem.message}</Text> <Link to="runs">All runs</Link>
      </Empty>
    )
  return <Trouble problem={problem} again={again} />
}

function Head({ run, again }: { run: RunDetail; again: () => void }) {
  return (
    <div class="title">
      <h1>
        <StateMark state={run.state} /> <JobLink id={run.job_id} />
      </h1>
      <p class="under">
        <span class="mono">
          <Text>{run.id}</Text>
        </span>{' '}
        <Copy text={run.id} /> lane <Link to={to('runs') + `?lane=${encodeURIComponent(run.lane)}`}><Text>{run.lane}</Text></Link>
        {run.tenant !== 'default' && <> · tenant <Text>{run.tenant}</Text></>}
        {run.session && <> · session <Link to={to('sessions', run.session)}><Text>{run.session}</Text></Link></>} · by <Linked>{run.created_by}</Linked> · <Ago at={run.created_at} />
        {run.worker_id && <> · worker <Text>{run.worker_id}</Text></>}
      </p>
      <span class="grow" />
      <div class="acts">{actionsOf(run, again).map((act) => <Action key={act.title} act={act} label={`${act.button}…`} />)}</div>
    </div>
  )
}

function actionsOf(run: RunDetail, done: () => void): Act[] {
  const path = { run_id: run.id }
  const reason = { name: 'reason', label: 'Reason' }
  const simple = (verb: 'hold' | 'release', says: string): Act => ({
    operation: op[verb],
    title: verb === 'hold' ? 'Hold the run' : 'Release the run',
    says,
    button: verb === 'hold' ? 'Hold' : 'Release',
    fields: [reason],
    command: (values) => command(verb, run.id, ...(values.reason ? ['--reason', values.reason] : [])),
    run: async (values) => {
      const found = await ask(op[verb], { path, body: { reason: values.reason ?? '' } })
      return `The run is ${verb === 'hold' ? 'held' : 'released'}; its state is ${wordOf(found.state)}`
    },
    done,
  })
  const handOut: Act = {
    operation: op.release_output,
    title: 'Hand out the result',
    says: 'Whoever may see the run then sees its result. The audit keeps your reason.',
    button: 'Hand out',
    fields: [{ ...reason, required: true }],
    command: (values) => command('release', run.id, '--reason', values.reason ?? ''),
    run: async (values) => {
      await ask(op.release_output, { path, body: { reason: values.reason ?? '' } })
      return 'The result was handed out. The run keeps its state.'
    },
    done,
  }
  if (hasEnded(run))
    return [
      ...(isWithheld(run) ? [handOut] : []),
      {
        operation: op.retry,
        title: 'Run it again',
        says: 'A new run with the same job, arguments, lane, session and labels is created. This run stays as it is.',
        button: 'Retry',
        fields: [reason],
        command: (values) => command('retry', run.id, ...(values.reason ? ['--reason', values.reason] : [])),
        run: async (values, key) => {
          const found = await ask(op.retry, { path, body: { reason: values.reason ?? '' }, key })
          return { text: 'A new run was created.', to: to('runs', found.id) }
        },
        done,
      },
    ]
  const isWorkflow = Boolean(run.facets.workflow)
  return [
    {
      operation: op.cancel,
      title: 'Cancel the run',
      says: run.started_at && !isWorkflow ? 'The run is asked to stop. It ends once its code has stopped.' : 'The run ends as cancelled.',
      button: 'Cancel run',
      bad: true,
      fields: [reason, ...(isWorkflow ? [{ name: 'compensate', label: 'Undo its steps first', kind: 'check' as const }] : []), { name: 'cascade', label: 'Also cancel the runs that it made', kind: 'check' as const }],
      command: (values) => command('cancel', run.id, values.compensate === 'true' && '--compensate', values.cascade === 'true' && '--cascade', ...(values.reason ? ['--reason', values.reason] : [])),
      run: async (values) => {
        const found = await ask(op.cancel, { path, body: { reason: values.reason ?? '', cascade: values.cascade === 'true', compensate: values.compensate === 'true' } })
        return found.state === 'cancelled' ? 'The run is cancelled.' : `The run was asked to stop; it is still ${wordOf(found.state)}.`
      },
      done,
    },
    run.facets.hold ? simple('release', 'The run goes on where it was held.') : simple('hold', 'The run does not start until somebody releases it. What already runs goes on.'),
  ]
}

function Why({ of, run }: { of: Explanation | undefined; run: RunDetail }) {
  if (!of) return <div class="why bones"><div /></div>
  const others = of.workers.filter((worker) => !worker.fits).length
  return (
    <section class={`why ${familyOf(run.state)}`} aria-label="Why it is here">
      <p class="sentence">
        <Linked own={run.id}>{of.sentence}</Linked>
      </p>
      {run.state === 'approval_required' && <p><Link to={to('approvals', run.id)}>Answer the question</Link></p>}
      {of.reasons.some((reason) => reason.ahead.length || reason.holders.length || reason.runs.length || reason.place) && (
        <ul>
          {of.reasons.map((reason) => (
            <li key={reason.kind + reason.name}>
              {reason.place ? <>place {count(reason.place)} </> : null}
              {reason.ahead.length > 0 && <>ahead {reason.ahead.map((id) => <RunLink key={id} id={id} />)} </>}
              {reason.holders.length > 0 && <>held by {reason.holders.map((id) => <RunLink key={id} id={id} />)} </>}
              {reason.runs.length > 0 && <>run {reason.runs.map((id) => <RunLink key={id} id={id} />)}</>}
            </li>
          ))}
        </ul>
      )}
      {(of.estimate_at || of.next_at) && (
        <p class="faint">
          Starts {of.next_at ? '' : 'about '}
          <Ago at={of.next_at ?? of.estimate_at} /> (<At at={of.next_at ?? of.estimate_at} />)
        </p>
      )}
      {of.workers.length > 0 && (
        <p class="faint">
          Workers: <Text>{of.workers.slice(0, 6).map((worker) => `${worker.id}${worker.fits ? ' fits' : `: ${worker.text}`}`).join(' · ')}</Text>
          {others > 6 && ` and ${others - 6} more`}
        </p>
      )}
    </section>
  )
}

interface Stretch {
  from: number
  until: number
  kind: string
  word: string
}

/** Attempts on one axis of time: waits, work and pauses between them, all to one scale. */
function Attempts({ run, entries }: { run: RunDetail; entries: HistoryEntry[] }) {
  const ended = run.ended_at ? secondsOf(run.ended_at) : null
  const until = Math.max(ended ?? now.value, secondsOf(run.created_at) + 0.001)
  const rows = useMemo(() => stretches(entries, until), [entries, until])
  if (!entries.length)
    return (
      <Section title="Attempts" id="attempts">
        <div class="scale-row">
          <span />
          <span class="scale-line" />
        </div>
      </Section>
    )
  const start = secondsOf(entries[0]!.at)
  const whole = Math.max(until - start, 0.001)
  const place = (at: number) => `${Math.max(0, Math.min(100, (100 * (at - start)) / whole))}%`
  return (
    <Section title="Attempts" id="attempts" side={<span class="faint">0s to {ended ? span(whole) : 'now'}, to scale</span>}>
      <div class="scale" role="list">
        {[...rows].map(([attempt, parts]) => (
          <div key={attempt} class="scale-row" role="listitem">
            <span class="scale-name">{attempt}</span>
            <span class="scale-line">
              {parts.map((part) => (
                <span
                  key={part.from + part.word}
                  class={`part ${part.kind}`}
                  style={{ left: place(part.from), width: `max(2px, ${(100 * (part.until - part.from)) / whole}%)` }}
                  title={`${part.word}: ${span(part.until - part.from)}, from ${span(part.from - start)}\n${new Date(part.from * 1000).toLocaleString()} (here)\n${new Date(part.from * 1000).toISOString()} (UTC)`}
                />
              ))}
            </span>
            <span class="scale-word">
              {line(parts.at(-1)!.word)} {span(parts.at(-1)!.until - (parts.find((part) => part.kind === 'working') ?? parts[0]!).from)}
            </span>
          </div>
        ))}
      </div>
    </Section>
  )
}

/** Waits belong to the attempt that they precede. */
function stretches(entries: HistoryEntry[], until: number): Map<number, Stretch[]> {
  const rows = new Map<number, Stretch[]>()
  entries.forEach((entry, place) => {
    const next = entries[place + 1]
    const isEnd = (TERMINAL as readonly string[]).includes(entry.after)
    const waits = familyOf(entry.after) !== 'working' && !isEnd
    const attempt = Math.max(1, isEnd ? Math.max(1, ...rows.keys()) : waits && entry.attempt ? entry.attempt + 1 : entry.attempt)
    const parts = rows.get(attempt) ?? []
    const from = secondsOf(entry.at)
    const word = wordOf(entry.after)
    if (entry.after === 'retrying' && rows.has(entry.attempt)) rows.get(entry.attempt)!.push({ from, until: from, kind: 'bad', word: entry.reason.split(',')[0]! })
    parts.push({ from, until: isEnd ? from : next ? secondsOf(next.at) : until, kind: familyOf(entry.after), word })
    rows.set(attempt, parts)
  })
  return rows
}

function Tabs({ run, why }: { run: RunDetail; why: Explanation | undefined }) {
  const stream = told.value.run === run.id ? told.value : null
  // What makes no attempt itself may have steps: a workflow, a step for each item, a step with steps inside.
  const steps = useRead(`has steps ${run.id}`, () => (run.attempt && !run.facets.workflow ? Promise.resolve(null) : ask(op.steps, { path: { run_id: run.id }, query: { limit: 1 } })), ['run'])
  const isFlow = Boolean(steps.data && (steps.data.graph || steps.data.steps.length))
  const tabs: [string, string, number | null][] = [
    ...(isFlow ? [['steps', 'Steps', null] as [string, string, null]] : []),
    ['log', 'Log', stream?.lines.length ?? null],
    ...(stream?.chunks.length ? [['stream', 'Stream', stream.chunks.length] as [string, string, number]] : []),
    ['payload', 'Payload', null],
    ['result', run.error ? 'Error' : 'Result', null],
    ['events', 'Events', stream?.history.length ?? null],
    ['details', 'Details', null],
  ]
  const wanted = here.value.query.get('tab')
  const chosen = tabs.find(([name]) => name === wanted)?.[0] ?? (isFlow ? 'steps' : 'log')
  return (
    <>
      <div class="tabs" role="tablist" aria-label="Parts of the run">
        {tabs.map(([name, title, size]) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={name === chosen} aria-controls="tab" onClick={() => filter({ tab: name, line: null })}>
            {title} {size !== null && <span class="faint">{count(size)}</span>}
          </button>
        ))}
      </div>
      <div id="tab" role="tabpanel" aria-labelledby={`tab-${chosen}`} tabIndex={0}>
        {chosen === 'steps' && <Steps run={run} />}
        {chosen === 'log' && <Log name={`${run.id}.log`} lines={stream?.lines ?? []} whole={stream?.whole ?? false} ended={hasEnded(run)} />}
        {chosen === 'stream' && <Long text={(stream?.chunks ?? []).map((chunk) => (typeof chunk === 'string' ? chunk : JSON.stringify(chunk) + '\n')).join('')} />}
        {chosen === 'payload' && <Tree key="payload" name="" value={run.payload} />}
        {chosen === 'result' && <Result run={run} />}
        {chosen === 'events' && <Events entries={stream?.history ?? []} />}
        {chosen === 'details' && <Details run={run} why={why} />}
      </div>
    </>
  )
}

function Result({ run }: { run: RunDetail }) {
  if (isWithheld(run)) return <Empty>The result is withheld by the output policy. An approver may hand it out, with a reason.</Empty>
  return (
    <>
      {run.error && <Long text={run.error} />}
      {run.result !== null && run.result !== undefined ? <Tree key="result" name="" value={run.result} /> : !run.error && <Empty>{hasEnded(run) ? 'The run returned nothing.' : 'The run has not ended.'}</Empty>}
    </>
  )
}

function Events({ entries }: { entries: HistoryEntry[] }) {
  return (
    <Table
      name="Events"
      items={entries}
      id={(entry) => entry.id}
      empty="No transition yet."
      columns={[
        { title: '#', right: true, cell: (entry) => entry.seq },
        { title: 'Time', cell: (entry) => <At at={entry.at} millis /> },
        { title: 'State', cell: (entry) => <StateMark state={entry.after} /> },
        { title: 'Attempt', right: true, spare: 2, cell: (entry) => entry.attempt || null },
        { title: 'By', spare: 1, cell: (entry) => <Linked>{entry.actor}</Linked> },
        { title: 'Reason', wide: true, cell: (entry) => <Linked>{entry.reason}</Linked> },
      ]}
    />
  )
}

function Details({ run, why }: { run: RunDetail; why: Explanation | undefined }) {
  const { facets } = run
  const verdict = why?.verdict
  const rows: [string, preact.ComponentChildren][] = [
    ['verdict', verdict && <>{wordOf(verdict.decision)}{verdict.rule && <> by rule <Text>{verdict.rule}</Text></>}{verdict.reason && <>: <Text>{verdict.reason}</Text></>}</>],
    ['origin', run.origin],
    ['due', <At at={run.scheduled_at} />],
    ['deadline', run.deadline_at && <><At at={run.deadline_at} /> (<Ago at={run.deadline_at} />)</>],
    ['made by', run.parent && <RunLink id={run.parent} whole />],
    ['retry of', facets.retry_of && <RunLink id={facets.retry_of.run_id} whole />],
    ['retried as', facets.retried_as && <RunLink id={facets.retried_as.run_id} whole />],
    ['collapsed into', facets.collapsed_into && <RunLink id={facets.collapsed_into.run_id} whole />],
    ['caused by', facets.caused_by && <RunLink id={facets.caused_by.run_id} whole />],
    ['runs it made', <Link to={`runs?root=${encodeURIComponent(run.root ?? run.id)}`}>its tree</Link>],
    ['labels', facets.labels && <Text>{Object.entries(facets.labels).map(([name, value]) => `${name}=${value}`).join(', ')}</Text>],
    ['key', run.idempotency_key && <Text>{run.idempotency_key}</Text>],
    ['attempts', run.attempt > 0 && `${run.attempt} (${run.failures} failed, ${run.crashes} crashed)`],
    ['exit code', run.exit_code !== null && run.exit_code],
    ['violations', facets.constraints?.violations?.length && <Text>{facets.constraints.violations.map((one) => one.message).join('; ')}</Text>],
    
    ['webhooks', <Link to={`deliveries?run=${encodeURIComponent(run.id)}`}>deliveries</Link>],
    ['notes', why?.notes.length ? <>{why.notes.map((note) => <div key={note.at}><At at={note.at} /> <Linked>{note.text}</Linked></div>)}</> : null],
    ['job version', <span class="mono">{run.job_version}</span>],
  ]
  return (
    <dl class="facts">
      {rows
        .filter(([, value]) => value !== null && value !== undefined && value !== false && value !== '' && value !== 0)
        .map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
    </dl>
  )
}

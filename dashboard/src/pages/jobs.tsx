// Jobs: schedule, next and last run; a job with its success rate, usual duration, next times, and its actions.
import * as op from '../operations'
import { Action, type Act } from '../action'
import { ask } from '../api'
import { Ago, At, Empty, JobLink, Section, Shown, Text } from '../bits'
import { jobs } from '../listings'
import { useRead } from '../live'
import { Link, to } from '../route'
import { Facts, shelfPage, type Shelf } from '../shelf'
import { StateMark } from '../state'
import { command, count, secondsOf, span } from '../text'
import type { JobInfo, Json } from '../types'
import { Table } from '../table'
import { RUN_COLUMNS } from './runs'

const JOBS: Shelf<JobInfo> = {
  listing: jobs,
  title: 'Jobs',
  read: async (_, cursor) => {
    const page = await ask(op.jobs, { query: { limit: 1000, cursor } })
    return { items: page.jobs, next: page.next }
  },
  id: (job) => job.id,
  events: ['job', 'run'],
  open: (job) => to('jobs', job.id),
  own: {
    job: (job) => <JobLink id={job.id} />,
    next: (job) => (job.paused ? 'paused' : <At at={job.next_at} />),
    fires: (job) => <Ago at={job.next_at} />,
    'last run': (job) => job.last_run && <Link to={to('runs', job.last_run.id)} class="plain"><StateMark state={job.last_run.state} /> <span class="faint"><Ago at={job.last_run.ended_at ?? job.last_run.scheduled_at} /></span></Link>,
    'other code': (job) => (job.other_code.length ? <Text>{`on ${job.other_code.join(', ')}`}</Text> : null),
  },
}
export const Jobs = shelfPage(JOBS)

const MOST = 100 // runs from which the rate and the duration are known

export function Job({ id }: { id: string }) {
  const job = useRead(`job ${id}`, () => ask(op.job, { path: { job_id: id } }), ['job', 'run'])
  const runs = useRead(`runs of ${id}`, () => ask(op.runs, { query: { job: id, limit: MOST } }), ['run'])
  return (
    <Shown of={job}>
      {(found) => (
        <>
          <div class="title">
            <h1>
              <Text>{found.id}</Text>
            </h1>
            <p class="under">
              {found.schedule_text ? <Text>{found.schedule_text}</Text> : 'no schedule: it runs when it is submitted or triggered'} · lane <Text>{found.lane}</Text> · declared in <Text>{found.source}</Text>
            </p>
            <span class="grow" />
            <div class="acts">
              {actsOf(found, job.again).map((act) => (
                <Action key={act.title} act={act} label={`${act.button}…`} />
              ))}
            </div>
          </div>
          <Figures job={found} runs={runs.data?.runs} />
          {found.schedule && <Next job={found} />}
          <Section title="Runs" side={<Link to={`runs?job=${encodeURIComponent(id)}`}>All with filters</Link>}>
            <Shown of={runs}>{(page) => <Table name="Runs" columns={RUN_COLUMNS.filter((column) => column.title !== 'Job')} items={page.runs.slice(0, 20)} id={(run) => run.id} open={(run) => to('runs', run.id)} empty={<>No runs yet. <code>{command(found.schedule ? 'trigger' : 'submit', id)}</code></>} />}</Shown>
          </Section>
          <Section title="Declaration" id="declaration">
            <Facts of={found} leave={['id', 'schedule', 'schedule_text', 'last_run', 'paused', 'next_at', 'live', 'source', 'lane']} />
          </Section>
        </>
      )}
    </Shown>
  )
}

function Figures({ job, runs }: { job: JobInfo; runs: { state: string; started_at: string | null; ended_at: string | null }[] | undefined }) {
  const ended = runs?.filter((run) => run.ended_at) ?? []
  const good = ended.filter((run) => run.state === 'succeeded')
  const lengths = good.flatMap((run) => (run.started_at ? [secondsOf(run.ended_at!) - secondsOf(run.started_at)] : [])).sort((a, b) => a - b)
  const middle = lengths.length ? `${span(lengths[Math.floor(lengths.length * 0.25)]!)} to ${span(lengths[Math.floor(lengths.length * 0.75)]!)}` : '–'
  const figures: [string, preact.ComponentChildren, string][] = [
    ['succeeded', ended.length ? `${Math.round((100 * good.length) / ended.length)} %` : '–', ended.length ? `of the newest ${count(ended.length)} ended` : 'no run has ended'],
    ['usual duration', middle, 'the middle half of these'],
    ['live', count(job.live), 'not ended'],
    ['next', job.paused ? 'paused' : job.next_at ? <Ago at={job.next_at} /> : '–', job.schedule ? '' : 'no schedule'],
    ['last', job.last_run ? <StateMark state={job.last_run.state} /> : '–', ''],
  ]
  return (
    <dl class="figures">
      {figures.map(([name, value, note]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
          {note && <dd class="faint">{note}</dd>}
        </div>
      ))}
    </dl>
  )
}

function Next({ job }: { job: JobInfo }) {
  const reading = useRead(`next ${job.id} ${job.version} ${job.next_at}`, () => ask(op.next_times, { path: { job_id: job.id }, query: { count: 5 } }))
  return (
    <Section title="Next times" id="next">
      <Shown of={reading} rows={1}>
        {(found) => (found.times.length ? <p>{found.times.map((time) => <span key={time} class="chip"><At at={time} /> <span class="faint"><Ago at={time} /></span></span>)}{job.paused && <span class="faint"> if it were not paused</span>}</p> : <Empty>It does not fire any more.</Empty>)}
      </Shown>
    </Section>
  )
}

const jsonOf = (text: string | undefined) => (text?.trim() ? (JSON.parse(text) as Record<string, Json>) : undefined)

export function actsOf(job: JobInfo, done: () => void): Act[] {
  const path = { job_id: job.id }
  const trigger: Act = {
    operation: op.trigger,
    title: `Run ${job.id} now`,
    says: job.schedule ? 'A run is created besides the schedule, which stays as it is.' : 'A run is created.',
    button: 'Trigger',
    fields: [{ name: 'payload', label: 'Arguments', kind: 'json', hint: 'A JSON object; empty for the job’s own.' }],
    command: (values) => command('trigger', job.id, ...(values.payload?.trim() ? ['--payload', values.payload] : [])),
    run: async (values, key) => {
      const found = await ask(op.trigger, { path, body: { payload: jsonOf(values.payload) }, key })
      return { text: 'A run was created.', to: to('runs', found.id) }
    },
    done,
  }
  if (!job.schedule) return [trigger]
  const pause: Act = {
    operation: job.paused ? op.resume : op.pause,
    title: job.paused ? `Resume ${job.id}` : `Pause ${job.id}`,
    says: job.paused ? 'The job fires again from its next time on. What it missed is not caught up.' : 'The schedule stops until somebody resumes it. Active runs go on.',
    button: job.paused ? 'Resume' : 'Pause',
    command: () => command(job.paused ? 'resume' : 'pause', job.id),
    run: async () => ((await ask(job.paused ? op.resume : op.pause, { path })).paused ? `${job.id} is paused` : `${job.id} is resumed`),
    done,
  }
  const times = (values: Record<string, string>) => ({ from: new Date(values.from!).toISOString(), to: new Date(values.to!).toISOString() })
  const backfill: Act = {
    operation: op.backfill,
    title: `Backfill ${job.id}`,
    says: 'The runs of a range of time are created. Occurrences that already have a run are left as they are.',
    button: 'Backfill',
    fields: [
      { name: 'from', label: 'From', kind: 'time', required: true },
      { name: 'to', label: 'To, itself excluded', kind: 'time', required: true },
      { name: 'parallel', label: 'At most so many at once', value: '1' },
    ],
    preview: async (values) => {
      if (!values.from || !values.to) return 'Give both times to see how many runs it creates.'
      const found = await ask(op.backfill, { path, body: { ...times(values), dry_run: true } })
      return `${count(found.created.length)} to create, ${count(found.existing.length)} exist already.`
    },
    command: (values) => command('backfill', job.id, values.from || 'FROM', values.to || 'TO', '--max-parallel', values.parallel || '1'),
    run: async (values) => {
      const found = await ask(op.backfill, { path, body: { ...times(values), max_parallel: Number(values.parallel) || 1 } })
      return { text: `${count(found.created.length)} created, ${count(found.existing.length)} existed already.`, to: `runs?job=${encodeURIComponent(job.id)}` }
    },
    done,
  }
  return [trigger, pause, backfill]
}

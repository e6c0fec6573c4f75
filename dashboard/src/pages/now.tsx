// Now: what needs you, what waits and why, how it goes.
import { Action, type Act } from '../action'
import { ask, Problem } from '../api'
import { Ago, Bar, Count, Empty, JobLink, Linked, Section, Shown, Text } from '../bits'
import { now, useRead } from '../live'
import { Link, to } from '../route'
import { Icon, SIGNS, type Family } from '../state'
import { command, count, plural, secondsOf, span } from '../text'
import type { ApprovalInfo, ChildInfo, Explanation, JobInfo, LaneInfo, LetterPage, Readiness, RunInfo } from '../types'

interface Situation {
  approvals: ApprovalInfo[]
  letters: LetterPage
  lanes: LaneInfo[]
  services: ChildInfo[]
  jobs: JobInfo[]
  ready: Readiness
  /** The newest waiting run of each lane in which runs wait, and why it does. */
  waits: Wait[]
  failed: RunInfo[]
}

interface Wait {
  lane: LaneInfo
  run: RunInfo
  why: Explanation
}

const FAILED = ['failed', 'timeout', 'orphaned'] as const

/** What a caller of one tenant may not see is empty for them. */
async function orElse<T>(found: Promise<T>, other: T): Promise<T> {
  try {
    return await found
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 403) return other
    throw problem
  }
}

async function situation(): Promise<Situation> {
  const since = new Date(Date.now() - 3600_000).toISOString()
  const [approvals, letters, lanes, services, jobs, ready, failed] = await Promise.all([
    ask('approvals', { query: { limit: 100 } }),
    ask('letters', { query: { limit: 100, replayed: false } }),
    orElse(ask('lanes'), { lanes: [] }),
    orElse(ask('services'), { services: [] }),
    ask('jobs', { query: { limit: 1000 } }),
    ask('readyz'),
    ask('runs', { query: { state: [...FAILED], since, limit: 200 } }),
  ])
  const waiting = lanes.lanes.filter((lane) => lane.waiting).slice(0, 12)
  const waits = await Promise.all(waiting.map(waitOf))
  return {
    approvals: approvals.approvals,
    letters,
    lanes: lanes.lanes,
    services: services.services,
    jobs: jobs.jobs,
    ready,
    waits: waits.flatMap((wait) => wait ?? []),
    failed: failed.runs,
  }
}

async function waitOf(lane: LaneInfo): Promise<Wait | null> {
  const page = await ask('runs', { query: { lane: lane.id, state: ['scheduled'], limit: 1 } })
  const run = page.runs[0]
  if (!run) return null
  try {
    return { lane, run, why: await ask('explanation', { path: { run_id: run.id } }) }
  } catch {
    return null // it has just gone
  }
}

export function Now() {
  const reading = useRead('now', situation, ['run', 'lane', 'service', 'job'], () => true, 10_000)
  return (
    <>
      <h1 class="unseen">Now</h1>
      <Shown of={reading} rows={12}>
        {(found) => (
          <>
            <Needs {...found} again={reading.again} />
            <div class="columns">
              <Waiting waits={found.waits} />
              <Lanes lanes={found.lanes} />
              <Failures runs={found.failed} />
            </div>
            <Sentence {...found} />
          </>
        )}
      </Shown>
    </>
  )
}

interface Need {
  key: string
  family: Family
  icon: string
  what: preact.ComponentChildren
  detail?: preact.ComponentChildren
  act?: preact.ComponentChildren
}

function Needs(found: Situation & { again: () => void }) {
  const needs = needsOf(found)
  return (
    <Section title="Needs you" id="needs">
      {needs.length ? (
        <ul class="needs">
          {needs.map((need) => (
            <li key={need.key}>
              <Icon path={need.icon} family={need.family} />
              <div class="what">{need.what}</div>
              <div class="detail">{need.detail}</div>
              <div class="act">{need.act}</div>
            </li>
          ))}
        </ul>
      ) : (
        <p class="calm">
          <Icon path={SIGNS.check} family="good" /> Nothing needs you.
        </p>
      )}
    </Section>
  )
}

function needsOf({ approvals, letters, lanes, services, jobs, ready, again }: Situation & { again: () => void }): Need[] {
  const needs: Need[] = []
  for (const [name, check] of Object.entries(ready.checks))
    if (!check.ok) needs.push({ key: `ready ${name}`, family: 'bad', icon: SIGNS.cross, what: <>The {name} is not ready: <Text>{check.detail || 'it does not answer'}</Text></> })
  if (approvals.length) {
    const first = approvals.reduce((a, b) => (a.expires_at < b.expires_at ? a : b))
    needs.push({
      key: 'approvals',
      family: 'policy',
      icon: SIGNS.person,
      what: <>{plural(approvals.length, 'run')} {approvals.length === 1 ? 'waits' : 'wait'} for an approval; the first expires <Ago at={first.expires_at} /></>,
      detail: <><Text>{first.job_id}</Text>{first.reason && <>: <Text>{first.reason}</Text></>}</>,
      act: <Link class="button" to={to('runs', first.run_id)}>Look</Link>,
    })
  }
  const total = Object.values(letters.counts ?? {}).reduce((sum, one) => sum + one, 0)
  if (total) {
    const groups = groupsOf(letters.letters.map((letter) => ({ job: letter.job_id, error: letter.error, at: letter.at, id: letter.id })))
    const most = groups[0]!
    needs.push({
      key: 'letters',
      family: 'bad',
      icon: SIGNS.cross,
      what: <>{plural(total, 'dead letter')} since <Ago at={letters.letters.at(-1)!.at} bare />, {count(most.count)} {most.count === 1 ? 'of' : 'with one error of'} {most.job ? <JobLink id={most.job} /> : 'a message'}</>,
      detail: <Text>{most.error}</Text>,
      act: <Link class="button" to={to('runs', most.id)}>Newest</Link>,
    })
  }
  for (const lane of lanes)
    if (lane.status === 'paused') {
      needs.push({
        key: `lane ${lane.id}`,
        family: 'waiting',
        icon: SIGNS.pause,
        what: <>Lane <b>{lane.id}</b> is paused</>,
        detail: lane.waiting ? <>{plural(lane.waiting, 'run')} {lane.waiting === 1 ? 'waits' : 'wait'}, the oldest for {span(lane.oldest_wait ?? 0)}</> : 'no run waits',
        act: <Action act={resumeLane(lane, again)} />,
      })
    }
  for (const service of services)
    if (service.next_try_at || service.status === 'failed' || service.exhausted)
      needs.push({
        key: `service ${service.path}`,
        family: 'bad',
        icon: SIGNS.repeat,
        what: <>Service <b><Text>{service.name}</Text></b> ended {plural(service.restarts, 'time')}{service.next_try_at ? <>, next try <Ago at={service.next_try_at} /></> : ', and is not tried again'}</>,
        detail: <Text>{service.reason || endOf(service)}</Text>,
      })
  for (const job of jobs)
    if (job.paused)
      needs.push({
        key: `job ${job.id}`,
        family: 'waiting',
        icon: SIGNS.pause,
        what: <>The schedule of <JobLink id={job.id} /> is paused</>,
        detail: <Text>{job.schedule_text}</Text>,
        act: <Action act={resumeJob(job, again)} />,
      })
  return needs
}

const endOf = ({ last_exit }: ChildInfo) => (last_exit ? last_exit.error || (last_exit.signal ? `signal ${last_exit.signal}` : `exit ${last_exit.code}`) : '')

const resumeLane = (lane: LaneInfo, done: () => void): Act => ({
  operation: 'resume_lane',
  title: `Resume lane ${lane.id}`,
  says: <>{plural(lane.waiting, 'waiting run')} may start again, {lane.limit} at once.</>,
  button: 'Resume',
  command: () => command('lane', 'resume', lane.id),
  run: async () => `Lane ${(await ask('resume_lane', { path: { lane: lane.id } })).id} is open`,
  done,
})

const resumeJob = (job: JobInfo, done: () => void): Act => ({
  operation: 'resume',
  title: `Resume ${job.id}`,
  says: 'The job fires again from its next time on. What it missed is not caught up.',
  button: 'Resume',
  command: () => command('resume', job.id),
  run: async () => `${(await ask('resume', { path: { job_id: job.id } })).id} is resumed`,
  done,
})

function Waiting({ waits }: { waits: Wait[] }) {
  const most = Math.max(1, ...waits.map((wait) => wait.lane.waiting))
  const total = waits.reduce((sum, wait) => sum + wait.lane.waiting, 0)
  return (
    <Section title="Waiting" id="waiting" side={total ? <Count>{total}</Count> : undefined}>
      {waits.length ? (
        <ul class="waits">
          {waits.map(({ lane, run, why }) => (
            <li key={lane.id}>
              <Bar part={lane.waiting} whole={most} kind="waiting" label={`${lane.waiting} runs`} />
              <span class="right">
                <Count>{lane.waiting}</Count>
              </span>
              <span class="what">
                <Linked own={run.id}>{why.sentence}</Linked>
                <span class="faint">
                  {' '}
                  oldest {span(lane.oldest_wait ?? 0)} · <Link to={`runs?state=scheduled&lane=${encodeURIComponent(lane.id)}`}>{lane.id}</Link>
                </span>
              </span>
            </li>
          ))}
        </ul>
      ) : (
        <Empty>No run waits for a slot.</Empty>
      )}
    </Section>
  )
}

function Lanes({ lanes }: { lanes: LaneInfo[] }) {
  const shown = lanes.filter((lane) => lane.active || lane.waiting || lane.status !== 'open' || !lane.declared)
  return (
    <Section title="Lanes" id="lanes">
      {shown.length ? (
        <table class="lanes">
          <thead>
            <tr>
              <th scope="col">lane</th>
              <th scope="col">slots in use</th>
              <th scope="col" class="right">waiting</th>
              <th scope="col" class="right">oldest</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((lane) => (
              <tr key={lane.id} data-row tabIndex={-1}>
                <td>
                  <Link to={`runs?live=true&lane=${encodeURIComponent(lane.id)}`}>{lane.id}</Link>
                </td>
                <td>
                  <Bar part={lane.active} whole={lane.limit} kind={lane.status === 'open' ? 'working' : 'waiting'} label={`${lane.active} of ${lane.limit} slots`} />{' '}
                  <span class="number">{lane.status === 'open' ? `${lane.active}/${lane.limit}` : lane.status}</span>
                </td>
                <td class="right">
                  <Count>{lane.waiting}</Count>
                </td>
                <td class="right">{lane.oldest_wait === null ? '' : span(lane.oldest_wait)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty>No lane has work.</Empty>
      )}
    </Section>
  )
}

interface Group {
  job: string
  error: string
  count: number
  at: string
  id: string
}

/** Group by job and by the error without its numbers; the largest group first. */
export function groupsOf(items: { job: string; error: string; at: string; id: string }[]): Group[] {
  const groups = new Map<string, Group>()
  for (const item of items) {
    const error = (item.error.trimEnd().split('\n').at(-1) ?? '').replace(/[0-9a-f]{28}|\d+(\.\d+)?/g, '#')
    const key = `${item.job}\n${error}`
    const group = groups.get(key)
    if (!group) groups.set(key, { ...item, error, count: 1 })
    else group.count += 1
  }
  return [...groups.values()].sort((a, b) => b.count - a.count)
}

function Failures({ runs }: { runs: RunInfo[] }) {
  const groups = groupsOf(runs.map((run) => ({ job: run.job_id, error: run.error ?? run.reason, at: run.ended_at ?? run.changed_at, id: run.id })))
  return (
    <Section title="Failures of the last hour" id="failures">
      {groups.length ? (
        <table>
          <thead>
            <tr>
              <th scope="col" class="right">runs</th>
              <th scope="col">job</th>
              <th scope="col">error</th>
              <th scope="col" class="right">newest</th>
            </tr>
          </thead>
          <tbody>
            {groups.slice(0, 8).map((group) => (
              <tr key={group.id} data-row tabIndex={-1}>
                <td class="right"><Count>{group.count}</Count></td>
                <td><JobLink id={group.job} /></td>
                <td class="wide"><Link to={to('runs', group.id)}><Text>{group.error}</Text></Link></td>
                <td class="right"><Ago at={group.at} bare /></td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty>No failures in the last hour.</Empty>
      )}
    </Section>
  )
}

function Sentence({ lanes, ready, jobs }: Situation) {
  const running = lanes.reduce((sum, lane) => sum + lane.active, 0)
  const waiting = lanes.reduce((sum, lane) => sum + lane.waiting, 0)
  const next = jobs.flatMap((job) => (job.next_at ? [job] : [])).sort((a, b) => (a.next_at! < b.next_at! ? -1 : 1))[0]
  return (
    <p class="sentence-line">
      running {count(running)} · waiting {count(waiting)} · {plural(jobs.length, 'job')}
      {next && <> · next <JobLink id={next.id} /> {secondsOf(next.next_at!) - now.value < 1 ? 'now' : <Ago at={next.next_at} />}</>} · {ready.ready ? 'everything is up' : 'not ready'}
    </p>
  )
}

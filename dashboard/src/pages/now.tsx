// Now: what needs you, what waits and why, how it goes.
import * as op from '../operations'
import { useState } from 'preact/hooks'
import { Action, type Act } from '../action'
import { ask } from '../api'
import { Ago, Bar, Count, Empty, JobLink, Linked, RunLink, Section, Shown, Text } from '../bits'
import { useEvents, useRead, type LiveEvent } from '../live'
import { Link, to } from '../route'
import { Icon, SIGNS, type Family } from '../state'
import { command, count, plural, span } from '../text'
import type { FailureList, LaneInfo, Need, Overview } from '../types'

const FAILED = ['failed', 'timeout', 'orphaned', 'denied', 'output_quarantined'] as const
const HOUR = 3600_000

export function Now() {
  const reading = useRead('overview', () => ask(op.overview))
  const [told, setTold] = useState<Overview | null>(null)
  const failed = useRead('failures', () => ask(op.failures, { query: { since: new Date(Date.now() - HOUR).toISOString(), limit: 8 } }), ['run'], isFailure, 60_000)
  useEvents(['overview'], (events) => {
    if (events === null) {
      setTold(null)
      reading.again()
    } else for (const event of events) if (event.name === 'overview') setTold(event.data)
  })
  return (
    <>
      <h1 class="unseen">Now</h1>
      <Shown of={told ? { ...reading, data: told } : reading} rows={12}>
        {(found) => (
          <>
            <Needs needs={found.needs} lanes={found.lanes} again={reading.again} />
            <div class="columns now">
              <Waiting of={found} />
              <Lanes lanes={found.lanes} />
              <Shown of={failed}>{(page) => <Failures of={page} />}</Shown>
            </div>
            <Sentence of={found} />
          </>
        )}
      </Shown>
    </>
  )
}

const isFailure = (event: LiveEvent) => event.name === 'run' && (FAILED as readonly string[]).includes(event.data.state)

const LOOKS: Record<Need['kind'], [string, Family]> = {
  approval: [SIGNS.person, 'policy'],
  dead_letter: [SIGNS.cross, 'bad'],
  lane: [SIGNS.pause, 'waiting'],
  schedule: [SIGNS.pause, 'waiting'],
  workflow: [SIGNS.warning, 'bad'],
  service: [SIGNS.repeat, 'bad'],
}

function Needs({ needs, lanes, again }: { needs: Need[]; lanes: LaneInfo[]; again: () => void }) {
  return (
    <Section title="Needs you" id="needs">
      {needs.length ? (
        <ul class="needs">
          {needs.map((need) => (
            <li key={need.kind + need.name}>
              <Icon path={LOOKS[need.kind][0]} family={LOOKS[need.kind][1]} />
              <div class="what">
                <Linked>{`${need.text[0]!.toUpperCase()}${need.text.slice(1)}`}</Linked>
                {need.kind === 'approval' && need.until && <>; the first expires <Ago at={need.until} /></>}
                {need.kind === 'service' && need.until && <>, next try <Ago at={need.until} /></>}
              </div>
              <div class="detail">
                <Text>{need.detail}</Text>
                {need.since && need.kind !== 'approval' && <> · {need.kind === 'dead_letter' ? 'oldest' : 'for'} <Ago at={need.since} bare /></>}
              </div>
              <div class="act">{wayOn(need, lanes, again)}</div>
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

function wayOn({ kind, name, run }: Need, lanes: LaneInfo[], again: () => void) {
  if (kind === 'lane' && name) return <Action act={resumeLane(name, lanes.find((lane) => lane.id === name)?.waiting ?? 0, again)} />
  if (kind === 'schedule' && name) return <Action act={resumeJob(name, again)} />
  const [page, label] = { approval: [run ? to('approvals', run) : 'approvals', 'Review'], dead_letter: ['dead-letters?replayed=false', 'Open'], workflow: [run ? to('runs', run) : 'workflows', 'Open'], service: [name ? to('services', name) : 'services', 'Log'] }[kind as 'service']!
  return (
    <Link class="button" to={page!}>
      {label}
    </Link>
  )
}

const resumeLane = (lane: string, waiting: number, done: () => void): Act => ({
  operation: op.resume_lane,
  title: `Resume lane ${lane}`,
  says: <>{plural(waiting, 'waiting run')} may start again.</>,
  button: 'Resume',
  command: () => command('lane', 'resume', lane),
  run: async () => `Lane ${(await ask(op.resume_lane, { path: { lane } })).id} is open`,
  done,
})

const resumeJob = (job: string, done: () => void): Act => ({
  operation: op.resume,
  title: `Resume ${job}`,
  says: 'The job fires again from its next time on. What it missed is not caught up.',
  button: 'Resume',
  command: () => command('resume', job),
  run: async () => `${(await ask(op.resume, { path: { job_id: job } })).id} is resumed`,
  done,
})

const PACED = new Set<string>(['lane_full', 'lane_turn', 'rate'])

function Waiting({ of }: { of: Overview }) {
  const most = Math.max(1, ...of.waiting.map((reason) => reason.count))
  const total = of.waiting.reduce((sum, reason) => sum + reason.count, of.unexplained)
  return (
    <Section title="Waiting" id="waiting" side={total ? <Count>{total}</Count> : undefined}>
      {of.waiting.length ? (
        <ul class="waits">
          {of.waiting.map((reason) => (
            <li key={reason.kind + reason.name + reason.job + reason.run}>
              <Bar part={reason.count} whole={most} kind={reason.kind === 'approval' ? 'policy' : 'waiting'} label={`${reason.count} runs`} />
              <span class="right">
                <Count>{reason.count}</Count>
              </span>
              <span class="what">
                <JobLink id={reason.job} /> <Linked>{reason.text}</Linked>
                <span class="faint">
                  {' '}
                  <Link to={to('runs', reason.run)}>oldest <Ago at={reason.since} bare /></Link>
                  {reason.pace && PACED.has(reason.kind) ? <> · {reason.pace >= 1 ? reason.pace.toFixed(1) : reason.pace.toPrecision(1)}/s start · about {span(Math.round(reason.count / reason.pace))}</> : null}
                  {reason.at && reason.kind !== 'approval' && <> · {reason.kind === 'no_worker' ? 'next try' : 'until then'} <Ago at={reason.at} /></>}
                  {reason.holders.length > 0 && <> · held by {reason.holders.slice(0, 2).map((id) => <><RunLink key={id} id={id} /> </>)}{reason.holders.length > 2 && 'and others'}</>}
                </span>
              </span>
            </li>
          ))}
          {of.unexplained > 0 && <li><span /><span class="right"><Count>{of.unexplained}</Count></span><span class="faint">in queues that are too many to explain</span></li>}
        </ul>
      ) : (
        <Empty>No run waits.</Empty>
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

function Failures({ of }: { of: FailureList }) {
  const groups = of.failures
  return (
    <Section title="Failures of the last hour" id="failures" side={of.runs ? <Count>{of.runs}</Count> : undefined}>
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
            {groups.map((group) => (
              <tr key={group.run} data-row tabIndex={-1}>
                <td class="right"><Count>{group.count}</Count></td>
                <td><JobLink id={group.job} /></td>
                <td class="wide"><Link to={to('runs', group.run)}><Text>{group.error}</Text></Link></td>
                <td class="right"><Ago at={group.newest} bare /></td>
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

const WORKING = ['dispatched', 'starting', 'running', 'terminating']

function Sentence({ of }: { of: Overview }) {
  const counts = Object.entries(of.states)
  const running = counts.reduce((sum, [state, number]) => (WORKING.includes(state) ? sum + number : sum), 0)
  const flows = of.states.under_way ?? 0
  const others = counts.reduce((sum, [, number]) => sum + number, 0) - running - flows
  return (
    <p class="sentence-line">
      <Link to="runs?live=true">running {count(running)}</Link> · waiting {count(others)}
      {flows > 0 && <> · <Link to="workflows">{plural(flows, 'workflow')} under way</Link></>} · <Link to="workers">{plural(of.workers, 'worker')}</Link> · {of.policy ? <>policy <span class="mono">{of.policy.slice(0, 8)}</span></> : 'no policy'}
    </p>
  )
}

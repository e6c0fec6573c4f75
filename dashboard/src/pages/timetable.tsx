// Timetable: when jobs fire in the coming days, how long they usually take, and how much work each hour expects.
import * as op from '../operations'
import { ask } from '../api'
import { Ago, At, Empty, JobLink, Linked, Section, Shown } from '../bits'
import { useRead } from '../live'
import { here, Link } from '../route'
import { command, count, secondsOf, span } from '../text'
import type { JobInfo, JobTimes, RunInfo, Timetable as Times } from '../types'

const RANGES: Record<string, number> = { '24h': 86400, '7d': 7 * 86400 }
const LEAST = 0.3 // percent of the width of a bar
const MARKS = 400 // bars of one job; more become one band

interface Found {
  times: Times
  jobs: Map<string, JobInfo>
  lengths: Map<string, number>
  missed: RunInfo[]
}

async function read(range: string): Promise<Found> {
  const since = new Date(Date.now() - 7 * 86400_000).toISOString()
  const [times, jobs, done, missed] = await Promise.all([
    ask(op.timetable, { query: { for: range, limit: 200 } }),
    ask(op.jobs, { query: { limit: 1000 } }),
    ask(op.runs, { query: { state: ['succeeded'], since, limit: 1000 } }),
    ask(op.runs, { query: { state: ['skipped'], since, limit: 200 } }),
  ])
  const all = new Map<string, number[]>()
  for (const run of done.runs) if (run.started_at && run.ended_at) all.set(run.job_id, [...(all.get(run.job_id) ?? []), secondsOf(run.ended_at) - secondsOf(run.started_at)])
  const lengths = new Map([...all].map(([job, found]) => [job, found.sort((a, b) => a - b)[Math.floor(found.length / 2)]!]))
  return { times, jobs: new Map(jobs.jobs.map((job) => [job.id, job])), lengths, missed: missed.runs.filter((run) => run.origin === 'schedule' || run.origin === 'catch_up') }
}

export function Timetable() {
  const range = here.value.query.get('for') ?? '24h'
  const known = RANGES[range] ? range : '24h'
  const reading = useRead(`timetable ${known}`, () => read(known), ['job'], () => true, 60_000)
  return (
    <>
      <div class="title">
        <h1>Timetable</h1>
        <nav class="views" aria-label="Range">
          {Object.keys(RANGES).map((one) => (
            <Link key={one} to={`timetable?for=${one}`} current={one === known}>
              {one === '24h' ? 'Day' : 'Week'}
            </Link>
          ))}
        </nav>
        <span class="faint">times of {Intl.DateTimeFormat().resolvedOptions().timeZone}</span>
      </div>
      <Shown of={reading}>{(found) => <Plan {...found} />}</Shown>
      <p class="faint">
        Bars are as long as the job usually takes. With lanes and waits: <code>{command('simulate', 'FILE', '--for', known)}</code>
      </p>
    </>
  )
}

function Plan({ times, jobs, lengths, missed }: Found) {
  const start = secondsOf(times.now)
  const whole = secondsOf(times.until) - start
  const place = (at: number) => (100 * (at - start)) / whole
  if (!times.jobs.length) return <Empty>Nothing fires in this range. <Link to="jobs">Jobs</Link></Empty>
  const days = ticks(start, whole)
  return (
    <>
      <Section title="When jobs fire" id="plan">
        <div class="plan">
          <div class="plan-row head">
            <span />
            <span class="plan-line">
              {days.map((day) => (
                <span key={day.at} class="tick" style={{ left: `${place(day.at)}%` }}>
                  {day.text}
                </span>
              ))}
            </span>
            <span class="next">next</span>
          </div>
          <Load times={times} lengths={lengths} start={start} whole={whole} />
          {times.jobs.map((job) => (
            <Row key={job.job_id} job={job} length={lengths.get(job.job_id) ?? 0} place={place} whole={whole} days={days} info={jobs.get(job.job_id)} />
          ))}
          {[...jobs.values()].filter((job) => job.paused).map((job) => (
            <div key={job.id} class="plan-row" data-row tabIndex={-1}>
              <span class="name"><JobLink id={job.id} /></span>
              <span class="plan-line faint">paused</span>
              <span class="next" />
            </div>
          ))}
        </div>
        {times.left_out > 0 && <p class="faint">{count(times.left_out)} further jobs fire too.</p>}
      </Section>
      <Section title="Skipped in the last 7 days" id="missed">
        {missed.length ? (
          <ul class="missed">
            {missed.slice(0, 10).map((run) => (
              <li key={run.id}>
                <At at={run.scheduled_at} /> <JobLink id={run.job_id} /> <span class="faint"><Linked>{run.reason}</Linked></span>
              </li>
            ))}
          </ul>
        ) : (
          <Empty>No occurrence was missed or skipped.</Empty>
        )}
      </Section>
    </>
  )
}

function Row({ job, length, place, whole, days, info }: { job: JobTimes; length: number; place: (at: number) => number; whole: number; days: { at: number }[]; info: JobInfo | undefined }) {
  const width = Math.max(LEAST, (100 * length) / whole)
  return (
    <div class="plan-row" data-row tabIndex={-1}>
      <span class="name">
        <JobLink id={job.job_id} />
      </span>
      <span class="plan-line" title={info?.schedule_text ?? ''}>
        {days.map((day) => (
          <span key={day.at} class="rule" style={{ left: `${place(day.at)}%` }} />
        ))}
        {job.times.length > MARKS ? (
          <span class="fire band" style={{ left: '0', width: '100%' }} title={`${count(job.times.length)}${job.more ? ' or more' : ''} fires`} />
        ) : (
          job.times.map((time) => <span key={time} class="fire" style={{ left: `${place(secondsOf(time))}%`, width: `${width}%` }} title={`${new Date(time).toLocaleString()} (here)\n${time} (UTC)${length ? `\nusually ${span(length)}` : ''}`} />)
        )}
      </span>
      <span class="next">
        <Ago at={job.times[0]} /> {length > 0 && <span class="faint">· {span(length)}</span>}
      </span>
    </div>
  )
}

/** Work expected in each hour: fires times usual duration. */
function Load({ times, lengths, start, whole }: { times: Times; lengths: Map<string, number>; start: number; whole: number }) {
  const size = whole > 2 * 86400 ? 3 * 3600 : 3600
  const slots = new Array<number>(Math.ceil(whole / size)).fill(0)
  const fires = new Array<number>(slots.length).fill(0)
  for (const job of times.jobs)
    for (const time of job.times) {
      const at = Math.floor((secondsOf(time) - start) / size)
      if (at >= 0 && at < slots.length) {
        slots[at]! += lengths.get(job.job_id) ?? 0
        fires[at]! += 1
      }
    }
  const most = Math.max(1, ...fires)
  return (
    <div class="plan-row load">
      <span class="name faint">fires {size === 3600 ? 'an hour' : 'in 3 h'}</span>
      <span class="plan-line">
        {fires.map((number, at) => (
          <span key={at} class="load-bar" style={{ left: `${(100 * at * size) / whole}%`, width: `${(100 * size) / whole}%`, height: `${(100 * number) / most}%` }} title={`${number} fires, ${span(slots[at]!)} of work\nfrom ${new Date((start + at * size) * 1000).toLocaleString()}`} />
        ))}
      </span>
      <span class="next faint">at most {count(most)}</span>
    </div>
  )
}

const day = (at: Date) => `${at.toLocaleDateString('en', { weekday: 'short' })} ${at.getDate()}`

/** Midnights of a week, or every three hours of a day. A change of the clocks is named at its day. */
function ticks(start: number, whole: number): { at: number; text: string }[] {
  const found: { at: number; text: string }[] = []
  const isWeek = whole > 2 * 86400
  const at = new Date(start * 1000)
  at.setMinutes(0, 0, 0)
  for (at.setHours(isWeek ? 24 : at.getHours() + 1); at.getTime() / 1000 < start + whole; isWeek ? at.setDate(at.getDate() + 1) : at.setHours(at.getHours() + 1)) {
    if (!isWeek && at.getHours() % 3) continue
    const after = new Date(at)
    after.setDate(after.getDate() + 1)
    const shift = after.getTimezoneOffset() - at.getTimezoneOffset()
    const text = isWeek ? day(at) + (shift ? ', clocks change' : '') : at.getHours() ? `${at.getHours()}:00` : day(at)
    found.push({ at: at.getTime() / 1000, text })
  }
  return found
}

// Approvals: what would run, why a person is asked, who asked, what else they did, and the answer.
import * as op from '../operations'
import { useEffect, useRef, useState } from 'preact/hooks'
import { obstacle } from '../action'
import { ask, Problem } from '../api'
import { Ago, Bar, Copy, Empty, JobLink, Linked, say, Section, Shown, Text, Trouble } from '../bits'
import { approvals } from '../listings'
import { now, useRead } from '../live'
import { me } from '../me'
import { Link, to } from '../route'
import { shelfPage, type Shelf } from '../shelf'
import { Icon, SIGNS, StateMark } from '../state'
import { command, secondsOf } from '../text'
import { Tree } from '../tree'
import type { ApprovalDetail, ApprovalInfo } from '../types'

const APPROVALS: Shelf<ApprovalInfo> = {
  listing: approvals,
  title: 'Approvals',
  read: async (query, cursor) => {
    const page = await ask(op.approvals, { query: { job: query.get('job') ?? undefined, limit: 100, cursor } })
    return { items: page.approvals, next: page.next }
  },
  id: (approval) => approval.run_id,
  events: ['run'],
  open: (approval) => to('approvals', approval.run_id),
  own: { run: (approval) => <Link to={to('approvals', approval.run_id)} class="mono">{approval.run_id.slice(0, 13)}</Link>, payload: (approval) => <Text>{approval.reason}</Text> },
  filters: { job: [] },
}
export const Approvals = shelfPage(APPROVALS)

export function Approval({ id }: { id: string }) {
  const reading = useRead(`approval ${id}`, () => ask(op.approval, { path: { run_id: id } }), ['run'])
  const shown = useRef<ApprovalDetail | null>(null)
  const [changed, setChanged] = useState(false)
  // What is on the screen is what is answered: if the request or the policy changes meanwhile, it says so and waits.
  useEffect(() => {
    const found = reading.data
    if (!found) return
    if (shown.current && shown.current.seen !== found.seen && !found.answer) setChanged(true)
    if (!shown.current) shown.current = found
  }, [reading.data?.seen])
  if (reading.problem instanceof Problem && reading.problem.code === 'no_approval')
    return (
      <Empty>
        Nobody is asked about this run. <Link to={to('runs', id)}>The run</Link> · <Link to="approvals">Every approval</Link>
      </Empty>
    )
  return (
    <Shown of={reading}>
      {(approval) => (
        <>
          <Head of={approval} />
          {changed && (
            <div class="fault" role="alert">
              <p>The request or the policy has changed since you looked. Look again before you answer.</p>
              <button
                type="button"
                onClick={() => {
                  shown.current = approval
                  setChanged(false)
                }}
              >
                I have looked again
              </button>
            </div>
          )}
          <div class="columns">
            <Section title="Arguments" id="payload">
              <Tree name="" value={approval.payload} />
            </Section>
            <Section title={`What else ${approval.created_by} did in 24 h`} id="recent">
              {approval.recent.length ? (
                <ul>
                  {approval.recent.map((one) => (
                    <li key={one.job_id + one.state}>
                      <JobLink id={one.job_id} /> {one.count} <StateMark state={one.state} />
                    </li>
                  ))}
                </ul>
              ) : (
                <Empty>Nothing else.</Empty>
              )}
              {!approval.recent_complete && <p class="faint">Of the newest 1,000 runs.</p>}
            </Section>
          </div>
          <Answer of={approval} seen={(shown.current ?? approval).seen} waits={changed} again={reading.again} />
        </>
      )}
    </Shown>
  )
}

function Head({ of }: { of: ApprovalDetail }) {
  const left = secondsOf(of.expires_at) - now.value
  const whole = secondsOf(of.expires_at) - secondsOf(of.asked_at)
  return (
    <>
      <div class="title">
        <h1>
          <Icon path={SIGNS.person} family="policy" /> <JobLink id={of.job_id} />
        </h1>
        <p class="under">
          asked by <Linked>{of.created_by}</Linked>, <Ago at={of.asked_at} /> · <Link to={to('runs', of.run_id)}>the run</Link>
          {of.tenant !== 'default' && <> · tenant <Text>{of.tenant}</Text></>}
          {of.risk_tags.length > 0 && <> · risk: <Text>{of.risk_tags.join(', ')}</Text></>}
          {of.capabilities.length > 0 && <> · uses <Text>{of.capabilities.join(', ')}</Text></>}
        </p>
      </div>
      <section class="why policy" aria-label="Why a person is asked">
        <p class="sentence">
          <Text>{of.reason || 'A person must agree before this runs.'}</Text>
        </p>
        <p class="faint">
          {of.rule ? <>rule <Text>{of.rule}</Text>, policy <span class="mono">{of.policy.slice(0, 8)}</span></> : 'a step of a workflow asks'}
        </p>
        {!of.answer && (
          <p>
            {left > 0 ? <>expires <Ago at={of.expires_at} /> </> : 'it has expired '}
            <Bar part={Math.max(0, left)} whole={whole} kind="policy" label="Time left" />
          </p>
        )}
      </section>
    </>
  )
}

const OF_OWN = 'You submitted this run, so another approver must answer.'

function Answer({ of, seen, waits, again }: { of: ApprovalDetail; seen: string; waits: boolean; again: () => void }) {
  const [reason, set] = useState('')
  const [state, setState] = useState<{ under?: boolean; problem?: unknown }>({})
  if (of.answer)
    return (
      <p class="prose">
        <b>{of.answer.approved ? 'Approved' : 'Rejected'}</b> by <Text>{of.answer.by}</Text>, <Ago at={of.answer.at} />: <Text>{of.answer.reason}</Text>
      </p>
    )
  if (of.state !== 'approval_required')
    return (
      <p class="prose">
        Nobody answered; the run is now <StateMark state={of.state} />
      </p>
    )
  const own = me.value && me.value.name !== 'local' && of.submitters.includes(me.value.name) ? OF_OWN : ''
  const hindrance = own || obstacle(op.approve) || (waits ? 'The request has changed; look again first.' : '')
  const answer = async (verb: 'approve' | 'reject') => {
    const fault = hindrance || (reason.trim() ? '' : 'Give a reason; it is kept with the run and in the audit.')
    if (fault) return setState({ problem: new Problem(0, '', fault) })
    setState({ under: true })
    try {
      const found = await ask(op[verb], { path: { run_id: of.run_id }, body: { reason, seen } })
      setState({})
      say(verb === 'approve' ? `Approved; the run is ${found.state.replaceAll('_', ' ')}` : 'Rejected; the run ends as denied', to('runs', of.run_id))
      again()
    } catch (problem) {
      setState({ problem })
      again()
    }
  }
  return (
    <form class="answer" onSubmit={(event) => event.preventDefault()}>
      <p class="faint">Your answer is for exactly this request under this policy.</p>
      <label>
        <span class="unseen">Reason</span>
        <input type="text" maxLength={500} placeholder="reason, kept with the run and in the audit" value={reason} onInput={(event) => set(event.currentTarget.value)} />
      </label>
      <div class="acts">
        <button type="button" class="danger" aria-disabled={hindrance ? 'true' : undefined} title={hindrance || undefined} disabled={state.under} onClick={() => void answer('reject')}>
          Reject
        </button>
        <button type="button" class="main" aria-disabled={hindrance ? 'true' : undefined} title={hindrance || undefined} disabled={state.under} onClick={() => void answer('approve')}>
          Approve
        </button>
        <Copy label="Copy as command" text={() => command('approve', of.run_id, '--reason', reason || 'REASON')} />
      </div>
      {own && <p class="fault">{own} <code>{command('approve', of.run_id, '--reason', reason || 'REASON')}</code> with their token does the same.</p>}
      {state.problem !== undefined && <Trouble problem={state.problem} />}
    </form>
  )
}

// The tables of the command line, each with its actions: letters, workers, lanes, sessions, services and the rest.
import * as op from '../operations'
import type { Act, Values } from '../action'
import { Action } from '../action'
import { ask } from '../api'
import { Ago, RunLink, Section, Shown, Text } from '../bits'
import { useRead } from '../live'
import { Link, to } from '../route'
import { Facts, shelfPage, type Shelf } from '../shelf'
import { command, plural, span } from '../text'
import { written } from '../tree'
import type { AuditEntry, ChildInfo, DeliveryInfo, LaneInfo, LetterInfo, LettersBody, NodeInfo, Operations, PoolInfo, SessionInfo, TenantInfo, WorkerInfo, WorkflowInfo } from '../types'
import { deliveries, entries, lanes, letters, nodes, pools, services, sessions, tenants, workers, workflows } from '../listings'
import { Table } from '../table'
import { replay } from './letter'
import { RUN_COLUMNS } from './runs'


const CODES = ['failed', 'timeout', 'orphaned', 'safety_denied', 'output_quarantined', 'no_pool_mapping', 'no_workers', 'pool_overloaded', 'dispatch_failed', 'poison'] as const
export const lastLine = (text: string) => text.trimEnd().split('\n').at(-1) ?? ''

export const LETTERS: Shelf<LetterInfo> = {
  listing: letters,
  title: 'Dead letters',
  read: async (query, cursor) => {
    const page = await ask(op.letters, { query: { code: (query.get('code') as LetterInfo['code']) ?? undefined, job: query.get('job') ?? undefined, replayed: query.get('replayed') === 'true' ? true : query.get('replayed') === 'false' ? false : undefined, limit: 100, cursor } as Operations['letters']['query'] })
    return { items: page.letters, next: page.next }
  },
  id: (letter) => letter.id,
  events: ['run'],
  open: (letter) => to('dead-letters', letter.id),
  own: {
    letter: (letter) => <Link to={to('dead-letters', letter.id)} class="mono"><Text>{letter.id.slice(0, 13)}</Text></Link>,
    error: (letter) => <>{letter.replayed_as && <>replayed as <RunLink id={letter.replayed_as} />; </>}<Text>{lastLine(letter.error)}</Text></>,
  },
  acts: (letter, done) => (letter.run_id && !letter.replayed_as ? [replay(letter, done)] : []),
  filters: { code: CODES, job: [], replayed: ['false', 'true'] },
  head: (query, done) => <div class="acts above">{[op.replay_many, op.drop_letters].map((name) => <Action key={name.name} act={manyLetters(name, query, done)} label={name === op.replay_many ? 'Replay these…' : 'Drop these…'} />)}</div>,
}

function manyLetters(operation: op.Row, query: URLSearchParams, done: () => void): Act {
  const isReplay = operation === op.replay_many
  const chosen: LettersBody = Object.fromEntries([...query].filter(([name]) => ['code', 'job'].includes(name)))
  const replayed = query.get('replayed')
  if (replayed) chosen.replayed = replayed === 'true'
  const words = [...query].map(([name, value]) => `${name} ${value}`)
  const body = Object.keys(chosen).length ? chosen : { all: true }
  return {
    operation,
    title: isReplay ? 'Replay dead letters' : 'Drop dead letters',
    says: <>{isReplay ? 'Each becomes a new run with the same job and arguments, which passes the policy like any other.' : 'They are gone for good; their runs and histories stay.'} It takes {words.length ? <>exactly the letters with {words.join(', ')}</> : 'every letter'}, on every page of the list.</>,
    button: isReplay ? 'Replay them' : 'Drop them',
    bad: !isReplay,
    fields: isReplay ? [{ name: 'reason', label: 'Reason' }] : [],
    command: (values) => command('dlq', isReplay ? 'replay' : 'drop', ...[...query].flatMap(([name, value]) => (['code', 'job'].includes(name) ? [`--${name}`, value] : [])), 'all' in body && '--all', ...(values.reason ? ['--reason', values.reason] : [])),
    run: async (values, key) => {
      if (isReplay) return `Request ${(await ask(op.replay_many, { body: { ...body, reason: values.reason ?? '' }, key })).id} is under way`
      await ask(op.drop_letters, { body })
      return 'They are dropped.'
    },
    done,
  }
}

/** An action without fields but a reason: what it says, and the command that does the same. */
const act = (operation: op.Row, title: string, button: string, says: preact.ComponentChildren, line: () => string, run: (values: Values) => Promise<unknown>, done: () => void, bad = false): Act => ({ operation, title, button, says, command: line, run: async (values) => (await run(values), `${title}: done`), done, bad })

const LANE_VERBS: Record<string, [op.Row, string, string]> = {
  pause: [op.pause_lane, 'Pause', 'No run of the lane starts until somebody resumes it. Active runs finish.'],
  resume: [op.resume_lane, 'Resume', 'Waiting runs start again.'],
  drain: [op.drain_lane, 'Drain', 'No run starts, and new ones are refused. Active runs finish; waiting ones stay.'],
}

export const LANES: Shelf<LaneInfo> = {
  listing: lanes,
  title: 'Lanes',
  read: async () => ({ items: (await ask(op.lanes)).lanes }),
  id: (lane) => lane.id,
  events: ['lane', 'run'],
  every: 5000,
  open: (lane) => `runs?live=true&lane=${encodeURIComponent(lane.id)}`,
  own: {
    rate: (lane) => (lane.rate ? `${lane.rate}${lane.burst > 1 ? `, burst ${lane.burst}` : ''}` : null),
    declared: (lane) => (lane.declared && (lane.declared.limit !== lane.limit || lane.declared.rate !== lane.rate) ? `limit ${lane.declared.limit}${lane.declared.rate ? `, rate ${lane.declared.rate}` : ''}` : null),
  },
  acts: (lane, done) =>
    (lane.status === 'open' ? ['pause', 'drain'] : ['resume']).map((verb) => {
      const [operation, button, says] = LANE_VERBS[verb]!
      return act(operation, `${button} lane ${lane.id}`, button, <>{says} {plural(lane.waiting, 'run')} {lane.waiting === 1 ? 'waits' : 'wait'}, {lane.active} active.</>, () => command('lane', verb, lane.id), () => ask(operation as typeof op.pause_lane, { path: { lane: lane.id } }), done, verb === 'drain')
    }),
}

export const WORKERS: Shelf<WorkerInfo> = {
  listing: workers,
  title: 'Workers',
  read: async () => ({ items: (await ask(op.workers)).workers }),
  id: (worker) => worker.id,
  every: 2000,
  own: {
    connected: () => null,
    runs: (worker) => `${worker.active}/${worker.slots}`,
    cpu: (worker) => (worker.cpu ? `${Math.round(worker.cpu)} %` : null),
    memory: (worker) => (worker.memory ? `${Math.round(worker.memory)} %` : null),
    gpu: (worker) => (worker.gpu ? `${Math.round(worker.gpu)} %` : null),
    heard: (worker) => span(Math.round(worker.heard_ago)),
    offers: (worker) => <Text>{[...worker.capabilities, ...Object.entries(worker.labels).map(([name, value]) => `${name}=${value}`)].join(' ')}</Text>,
  },
  acts: (worker, done) => [
    worker.drained
      ? act(op.resume_worker, `Resume ${worker.id}`, 'Resume', 'It gets new runs again.', () => command('workers', 'resume', worker.id), () => ask(op.resume_worker, { path: { worker_id: worker.id } }), done)
      : act(op.drain_worker, `Drain ${worker.id}`, 'Drain', <>It finishes its {plural(worker.active, 'run')} and gets no others until somebody resumes it.</>, () => command('workers', 'drain', worker.id), () => ask(op.drain_worker, { path: { worker_id: worker.id } }), done),
    ...(worker.state === 'away' ? [act(op.remove_worker, `Remove ${worker.id}`, 'Remove', 'It is forgotten, and its runs are retried elsewhere.', () => command('workers', 'remove', worker.id), () => ask(op.remove_worker, { path: { worker_id: worker.id } }), done, true)] : []),
  ],
}

export const POOLS: Shelf<PoolInfo> = {
  listing: pools,
  title: 'Pools',
  read: async () => ({ items: (await ask(op.pools)).pools }),
  id: (pool) => pool.id,
  every: 5000,
  own: { declared: (pool) => (pool.declared ? 'yes' : 'no') },
}

export const TENANTS: Shelf<TenantInfo> = {
  listing: tenants,
  title: 'Tenants',
  read: async () => ({ items: (await ask(op.tenants)).tenants }),
  id: (tenant) => tenant.id,
  every: 5000,
  open: (tenant) => `runs?tenant=${encodeURIComponent(tenant.id)}`,
  own: { rate: (tenant) => (tenant.rate ? `${tenant.rate}${tenant.burst > 1 ? `, burst ${tenant.burst}` : ''}` : null), lanes: (tenant) => <Text>{tenant.lanes.join(', ')}</Text> },
}

const SESSION_VERBS: Record<string, [op.Row, string, string]> = {
  pause: [op.pause_session, 'Pause', 'Waiting runs stay; active ones finish.'],
  resume: [op.resume_session, 'Resume', 'Waiting runs get their turns again.'],
  stop: [op.stop_session, 'Stop', 'The oldest active run is cancelled.'],
  stopall: [op.stopall_session, 'Stop all', 'Every active and waiting run is cancelled, and so are earlier messages that arrive later.'],
  reset: [op.reset_session, 'Reset', 'Waiting runs are cancelled, and a new generation begins; active runs finish outside it.'],
}

export const sessionActs = (session: SessionInfo, verbs: string[], done: () => void): Act[] =>
  verbs.map((verb) => {
    const [operation, button, says] = SESSION_VERBS[verb]!
    return act(operation, `${button} session`, button, <>{says} {session.active} active, {session.waiting} waiting.</>, () => command('session', verb, session.key), () => ask(operation as typeof op.stop_session, { path: { session: session.key } }), done, verb.startsWith('stop') || verb === 'reset')
  })

export const SESSIONS: Shelf<SessionInfo> = {
  listing: sessions,
  title: 'Sessions',
  read: async (_, cursor) => {
    const page = await ask(op.sessions, { query: { limit: 100, cursor } })
    return { items: page.sessions, next: page.next }
  },
  id: (session) => `${session.tenant} ${session.key}`,
  events: ['session', 'run'],
  open: (session) => to('sessions', session.key),
  own: {
    session: (session) => <Link to={to('sessions', session.key)}><Text>{session.key}</Text></Link>,
    active: (session) => `${session.active}/${session.max_concurrent}`,
    waiting: (session) => `${session.waiting}/${session.cap}`,
    status: (session) => (session.paused ? 'paused' : 'open'),
  },
  acts: (session, done) => sessionActs(session, [session.paused ? 'resume' : 'pause', 'stop'], done),
}

export function Session({ id }: { id: string }) {
  const reading = useRead(`session ${id}`, () => ask(op.session, { path: { session: id } }), ['session', 'run'])
  const runs = useRead(`runs of session ${id}`, () => ask(op.runs, { query: { session: id, limit: 20 } }), ['run'])
  return (
    <Shown of={reading}>
      {(session) => (
        <>
          <div class="title">
            <h1>Session <Text>{id}</Text></h1>
            <span class="grow" />
            <div class="acts">{sessionActs(session, [session.paused ? 'resume' : 'pause', 'stop', 'stopall', 'reset'], reading.again).map((one) => <Action key={one.title} act={one} label={`${one.button}…`} />)}</div>
          </div>
          <Section title="Runs" side={<Link to={`runs?session=${encodeURIComponent(id)}`}>All with filters</Link>}>
            <Shown of={runs}>{(page) => <Table name="Runs" columns={RUN_COLUMNS.filter((column) => column.title !== 'Session')} items={page.runs} id={(run) => run.id} open={(run) => to('runs', run.id)} empty="No runs." />}</Shown>
          </Section>
          <Section title="State and options" id="facts"><Facts of={session} leave={['key']} /></Section>
        </>
      )}
    </Shown>
  )
}

const SERVICE_VERBS: Record<string, [op.Row, string, string]> = {
  start: [op.start_service, 'Start', 'It is started now.'],
  stop: [op.stop_service, 'Stop', 'It is stopped and stays so until somebody starts it.'],
  restart: [op.restart_service, 'Restart', 'It is stopped and started again; a backoff ends.'],
  suspend: [op.suspend_service, 'Suspend', 'Its processes get no time until somebody resumes it.'],
  resume: [op.resume_service, 'Resume', 'Its processes go on.'],
}

export const serviceActs = (service: ChildInfo, done: () => void): Act[] =>
  (service.status === 'suspended' ? ['resume'] : service.status === 'stopped' || service.status === 'failed' ? ['start'] : ['restart', 'stop']).map((verb) => {
    const [operation, button, says] = SERVICE_VERBS[verb]!
    return act(operation, `${button} ${service.name}`, button, says, () => command('service', verb, service.name), () => ask(operation as typeof op.stop_service, { path: { name: service.name } }), done, verb === 'stop')
  })

export const endOf = ({ last_exit }: ChildInfo) => (last_exit ? last_exit.error || (last_exit.signal ? `signal ${last_exit.signal}` : `exit ${last_exit.code}`) : '')

export const SERVICES: Shelf<ChildInfo> = {
  listing: services,
  title: 'Services',
  read: async () => ({ items: (await ask(op.services)).services }),
  id: (service) => service.path,
  events: ['service'],
  open: (service) => to('services', service.name),
  own: {
    service: (service) => <Link to={to('services', service.name)}><Text>{service.name}</Text></Link>,
    pid: (service) => service.pid,
    why: (service) => <>{service.next_try_at && <>next try <Ago at={service.next_try_at} />; </>}<Text>{service.reason || endOf(service)}</Text></>,
  },
  acts: serviceActs,
}

export const DELIVERIES: Shelf<DeliveryInfo> = {
  listing: deliveries,
  title: 'Deliveries',
  read: async (query, cursor) => {
    const page = await ask(op.deliveries, { query: { run: query.get('run') ?? undefined, job: query.get('job') ?? undefined, state: (query.get('state') as DeliveryInfo['state']) ?? undefined, limit: 100, cursor } })
    return { items: page.deliveries, next: page.next }
  },
  id: (delivery) => delivery.id,
  every: 5000,
  own: {
    delivery: (delivery) => <span class="mono">{delivery.id.slice(0, 13)}</span>,
    event: (delivery) => <Text>{delivery.event.replace(/^run\./, '')}</Text>,
    target: (delivery) => <Text>{delivery.target.replace(/^https?:\/\//, '')}</Text>,
    what: (delivery) => <>{delivery.state}{delivery.tries > 0 && <>, {plural(delivery.tries, 'try', 'tries')}</>}{delivery.next_at && <>, next <Ago at={delivery.next_at} /></>}{delivery.status && <>, answer {delivery.status}</>} <Text>{delivery.error}</Text></>,
  },
  acts: (delivery, done) => (delivery.state === 'delivered' ? [] : [act(op.redeliver, 'Deliver it again', 'Redeliver', 'The webhook is sent again, under the id that it had.', () => command('redeliver', delivery.id), () => ask(op.redeliver, { path: { delivery_id: delivery.id } }), done)]),
  filters: { state: ['pending', 'delivered', 'failed'], job: [], run: [] },
}

export const AUDIT: Shelf<AuditEntry> = {
  listing: entries,
  title: 'Audit',
  read: async (query) => {
    const page = await ask(op.audit, { query: { kind: (query.get('kind') as AuditEntry['kind']) ?? undefined, actor: query.get('actor') ?? undefined, subject: query.get('subject') ?? undefined, last: true, limit: 200 } })
    return { items: page.entries.reverse() }
  },
  id: (entry) => String(entry.number),
  every: 5000,
  own: { kind: (entry) => entry.kind.replaceAll('_', ' '), subject: (entry) => (/^[0-9a-f]{28}$/.test(entry.subject) ? <RunLink id={entry.subject} /> : <Text>{entry.subject}</Text>), detail: (entry) => <Text>{Object.entries(entry.detail).map(([name, value]) => `${name} ${typeof value === 'string' ? value : written(value)}`).join(', ')}</Text> },
  filters: { actor: [], subject: [] },
}

export const NODES: Shelf<NodeInfo> = {
  listing: nodes,
  title: 'Cluster',
  read: async () => ({ items: (await ask(op.cluster)).nodes }),
  id: (node) => node.name,
  every: 2000,
  own: {
    state: (node) => (node.leads ? 'leads' : node.roles.includes('scheduler') ? 'stands by' : ''),
    heard: (node) => (node.leads ? null : span(Math.round(node.silent))),
    clock: (node) => (Math.abs(node.clock) >= 0.1 ? `${node.clock > 0 ? '+' : ''}${node.clock.toFixed(1)}s` : null),
  },
  acts: (node, done) => (node.leads || !node.roles.includes('scheduler') ? [] : [act(op.hand_over, `Let ${node.name} lead`, 'Hand over', 'It leads from now on. No attempt ends.', () => command('cluster', 'hand-over', node.name), () => ask(op.hand_over, { query: { node: node.name } }), done)]),
}

export const WORKFLOWS: Shelf<WorkflowInfo> = {
  listing: workflows,
  title: 'Workflows under way',
  read: async (query, cursor) => {
    const page = await ask(op.workflows, { query: { job: query.get('job') ?? undefined, status: (query.get('status') as WorkflowInfo['status']) ?? undefined, limit: 100, cursor } })
    return { items: page.workflows, next: page.next }
  },
  id: (flow) => flow.run_id,
  events: ['run'],
  open: (flow) => to('runs', flow.run_id),
  own: { status: (flow) => flow.status.replaceAll('_', ' ') },
  filters: { job: [], status: ['waiting', 'closing', 'rolling_back', 'halted'] },
}

export const DeadLetters = shelfPage(LETTERS)
export const Workers = shelfPage(WORKERS, POOLS, TENANTS)
export const Lanes = shelfPage(LANES)
export const Sessions = shelfPage(SESSIONS)
export const Services = shelfPage(SERVICES)
export const Deliveries = shelfPage(DELIVERIES)
export const Audit = shelfPage(AUDIT)
export const Cluster = shelfPage(NODES)
export const Workflows = shelfPage(WORKFLOWS)

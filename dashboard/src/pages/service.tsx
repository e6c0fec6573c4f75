// A service: whether it is up, and what it prints.
import * as op from '../operations'
import { useState } from 'preact/hooks'
import { Action } from '../action'
import { ask } from '../api'
import { Ago, Section, Shown, Text } from '../bits'
import { useEvents, useRead } from '../live'
import { Log } from '../log'
import { Facts } from '../shelf'
import { wordOf } from '../state'
import type { LogLine, ServiceLine } from '../types'
import { endOf, serviceActs } from './shelves'

const asLog = ({ at, stream, text }: ServiceLine): LogLine => ({ at, attempt: 0, level: stream, text, logger: '' })

export function Service({ id }: { id: string }) {
  const reading = useRead(`service ${id}`, () => ask(op.service, { path: { name: id } }), ['service'])
  const log = useRead(`log of ${id}`, () => ask(op.service_logs, { path: { name: id }, query: { last: true, limit: 1000 } }), ['service'])
  const [more, setMore] = useState<ServiceLine[]>([])
  useEvents(['service_log'], (events) => {
    if (events) setMore([...more, ...events.flatMap((event) => (event.name === 'service_log' && event.data.service === id ? [event.data] : []))])
  })
  const known = log.data?.lines ?? []
  const last = known.at(-1)?.at ?? ''
  return (
    <Shown of={reading}>
      {(service) => (
        <>
          <div class="title">
            <h1>
              <Text>{service.name}</Text> <span class="faint">{wordOf(service.status)}</span>
            </h1>
            <span class="grow" />
            <div class="acts">{serviceActs(service, reading.again).map((act) => <Action key={act.title} act={act} label={`${act.button}…`} />)}</div>
          </div>
          {(service.reason || service.next_try_at || service.last_exit) && (
            <section class={`why ${service.next_try_at || service.status === 'failed' ? 'bad' : ''}`} aria-label="Why">
              <p class="sentence">
                <Text>{service.reason || endOf(service)}</Text>{service.next_try_at && <>; next try <Ago at={service.next_try_at} /></>}
              </p>
            </section>
          )}
          <Section title="Log">
            <Log name={`${id}.log`} lines={[...known, ...more.filter((line) => line.at > last)].map(asLog)} whole={log.data !== undefined} ended={false} />
          </Section>
          <Section title="State" id="facts">
            <Facts of={service} leave={['children', 'reason', 'traceback', 'name', 'last_exit']} />
          </Section>
        </>
      )}
    </Shown>
  )
}

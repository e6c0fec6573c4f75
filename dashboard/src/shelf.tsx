// Tables of one kind of thing, drawn from the listing that the command line declares: columns, forms, empty sentence.
import type { ComponentChildren, FunctionComponent } from 'preact'
import { useState } from 'preact/hooks'
import { Action, type Act } from './action'
import { Ago, Count, JobLink, RunLink, Section, Shown, Text } from './bits'
import { useRead } from './live'
import { filter, here, Link } from './route'
import { StateMark, wordOf } from './state'
import { Table, type Column } from './table'
import { span } from './text'
import { STATES, type Events, type State } from './types'
import { written } from './tree'

type Cell<T> = (item: T) => ComponentChildren

interface Listing {
  empty: string
  columns: readonly { title: string; field: string | null; form: string; right: boolean; spare: number; wide: boolean }[]
}

export interface Shelf<T> {
  listing: Listing
  title: string
  read: (query: URLSearchParams, cursor?: string) => Promise<{ items: T[]; next?: string | null }>
  id: (item: T) => string
  /** Events that tell of a change, or how often to look in ms. */
  events?: (keyof Events)[]
  every?: number
  /** Columns that the command line works out, and those that are more here, such as links. */
  own?: Record<string, Cell<T>>
  open?: (item: T) => string | null
  acts?: (item: T, done: () => void) => Act[]
  /** Filters in the address: names, each with its choices or none for a text. */
  filters?: Record<string, readonly string[]>
  /** Above the table: actions on what the filters choose. */
  head?: (query: URLSearchParams, done: () => void) => ComponentChildren
}

const FORMS: Record<string, (value: any) => ComponentChildren> = {
  number: (value: number) => <Count>{value}</Count>,
  count: (value: number) => (value ? <Count>{value}</Count> : null),
  age: (value: string) => <Ago at={value} bare />,
  ahead: (value: string) => <Ago at={value} bare />,
  time: (value: string) => <Ago at={value} />,
  length: (value: number) => span(value),
  json: (value: unknown) => <Text>{written(value)}</Text>,
}

/** Fields that lead somewhere, whatever the table. */
const LINKS: Record<string, (value: string) => ComponentChildren> = {
  run_id: (value) => <RunLink id={value} />,
  job_id: (value) => <JobLink id={value} />,
  state: (value) => ((STATES as readonly string[]).includes(value) ? <StateMark state={value as State} /> : wordOf(value)),
}

function columnsOf<T>(shelf: Shelf<T>): Column<T>[] {
  return shelf.listing.columns.map(({ title, field, form, right, spare, wide }) => {
    const draw = shelf.own?.[title]
    const value = (item: T) => (field === null ? null : (item as Record<string, unknown>)[field])
    const cell: Cell<T> = (item) => {
      if (draw) return draw(item)
      const found = value(item)
      if (found === null || found === undefined || found === '') return null
      if (field !== null && LINKS[field] && typeof found === 'string') return LINKS[field](found)
      if (FORMS[form]) return FORMS[form](found)
      if (Array.isArray(found)) return <Text>{found.join(' ')}</Text>
      return typeof found === 'string' ? <Text>{found}</Text> : <>{String(found)}</>
    }
    return { title, cell, right, wide, spare: Math.min(spare, 3) || undefined, mono: field === 'run_id' }
  })
}

/** A table with its filters and actions, live. */
export function ShelfTable<T>({ shelf }: { shelf: Shelf<T> }) {
  const { query } = here.value
  const text = query.toString()
  const key = `${shelf.title}?${text}`
  const [more, setMore] = useState<{ key: string; items: T[]; next?: string | null } | null>(null)
  const reading = useRead(key, () => shelf.read(query), shelf.events, () => true, shelf.every)
  const extra = more?.key === key ? more : null
  const next = extra ? extra.next : reading.data?.next
  const older = async () => {
    const page = await shelf.read(query, next!)
    setMore({ key, items: [...(extra?.items ?? []), ...page.items], next: page.next })
  }
  const columns = columnsOf(shelf)
  if (shelf.acts) {
    const acts = shelf.acts
    columns.push({
      title: 'Actions',
      unseen: true,
      right: true,
      spare: 3,
      cell: (item) => (
        <span class="acts">
          {acts(item, reading.again).map((act) => (
            <Action key={act.title} act={act} />
          ))}
        </span>
      ),
    })
  }
  return (
    <>
      {shelf.filters && <Filters filters={shelf.filters} query={query} />}
      {shelf.head?.(query, reading.again)}
      <Shown of={reading}>
        {(page) => {
          const seen = new Set(page.items.map(shelf.id))
          const empty = shelf.listing.empty
          return (
            <>
              <Table
                name={shelf.title}
                columns={columns}
                items={[...page.items, ...(extra?.items.filter((item) => !seen.has(shelf.id(item))) ?? [])]}
                id={shelf.id}
                open={shelf.open}
                empty={
                  text && shelf.filters ? (
                    <>
                      Nothing matches. <Link to={here.value.path}>Without filters</Link>
                    </>
                  ) : (
                    `${empty[0]!.toUpperCase()}${empty.slice(1)}.`
                  )
                }
              />
              {next && (
                <button type="button" class="quiet" onClick={() => void older()}>
                  More
                </button>
              )}
            </>
          )
        }}
      </Shown>
    </>
  )
}

/** A page that is one table, or several. */
export function shelfPage(...shelves: Shelf<any>[]): FunctionComponent {
  const [first, ...others] = shelves
  return () => (
    <>
      <div class="title">
        <h1>{first!.title}</h1>
      </div>
      <ShelfTable shelf={first!} />
      {others.map((shelf) => (
        <Section key={shelf.title} title={shelf.title}>
          <ShelfTable shelf={{ ...shelf, filters: undefined }} />
        </Section>
      ))}
    </>
  )
}

function Filters({ filters, query }: { filters: Record<string, readonly string[]>; query: URLSearchParams }) {
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      {Object.entries(filters).map(([name, choices]) => (
        <label key={name}>
          <span>{name}</span>
          {choices.length ? (
            <select value={query.get(name) ?? ''} onChange={(event) => filter({ [name]: event.currentTarget.value || null })}>
              <option value="">any</option>
              {choices.map((choice) => (
                <option key={choice} value={choice}>
                  {wordOf(choice)}
                </option>
              ))}
            </select>
          ) : (
            <input
              type="search"
              key={query.get(name)}
              defaultValue={query.get(name) ?? ''}
              placeholder="any"
              onChange={(event) => filter({ [name]: event.currentTarget.value.trim() || null })}
            />
          )}
        </label>
      ))}
    </form>
  )
}

/** Every field of a thing, by name. */
export function Facts({ of, leave = [] }: { of: object; leave?: string[] }) {
  return (
    <dl class="facts">
      {Object.entries(of)
        .filter(([name, value]) => !leave.includes(name) && value !== null && value !== '' && !(Array.isArray(value) && !value.length) && !(typeof value === 'object' && !Object.keys(value).length))
        .map(([name, value]) => (
          <>
            <dt>{wordOf(name)}</dt>
            <dd>{factOf(name, value)}</dd>
          </>
        ))}
    </dl>
  )
}

function factOf(name: string, value: unknown): ComponentChildren {
  if (typeof value === 'string') {
    if (LINKS[name]) return LINKS[name](value)
    return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? <Ago at={value} /> : <Text>{value}</Text>
  }
  if (typeof value === 'number') return <Count>{Math.round(value * 1000) / 1000}</Count>
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return <Text>{value.join(', ')}</Text>
  return <Text>{written(value)}</Text>
}

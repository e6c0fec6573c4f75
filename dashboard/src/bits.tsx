// Small pieces that every page uses.
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Problem } from './api'
import { now, type Reading } from './live'
import { Link, to } from './route'
import { count, exact, clock, line, secondsOf, span, visible } from './text'

export const Text = ({ children }: { children: string | null | undefined }) => <>{children ? line(children) : ''}</>

/** A time as people say it: `3m ago`, `in 12s`; both exact times on hover. */
export function Ago({ at, bare }: { at: string | null | undefined; bare?: boolean }) {
  if (!at) return null
  const away = now.value - secondsOf(at)
  const text = span(Math.max(0, Math.abs(away) < 1 ? 0 : Math.abs(Math.round(away))))
  return (
    <time dateTime={at} title={exact(at)}>
      {bare ? text : away < -0.5 ? `in ${text}` : `${text} ago`}
    </time>
  )
}

export const At = ({ at, millis }: { at: string | null | undefined; millis?: boolean }) =>
  at ? (
    <time dateTime={at} title={exact(at)}>
      {clock(at, now.value, millis)}
    </time>
  ) : null

/** Since when something goes on, or how long it took. */
export function Took({ from, until }: { from: string | null; until: string | null }) {
  if (!from) return null
  return <>{span(Math.max(0, (until ? secondsOf(until) : now.value) - secondsOf(from)))}</>
}

export const Count = ({ children }: { children: number }) => <span class="number">{count(children)}</span>

const ID = /^[0-9a-f]{28}(?=@|$)/
const IDS = /\b([0-9a-f]{28}(?:@[\w.-]+(?:\[\d+\])?)*)/
export const shortId = (id: string) => (ID.test(id) ? `${id.slice(0, 8)}…${id.slice(23)}` : id)

export const RunLink = ({ id, whole }: { id: string; whole?: boolean }) => (
  <Link to={to('runs', id)} class="mono" title={id}>
    {visible(whole ? id : shortId(id))}
  </Link>
)
export const JobLink = ({ id }: { id: string }) => <Link to={to('jobs', id)}>{line(id)}</Link>

/** Texts whose ids of runs are links. */
export function Linked({ children, own }: { children: string; own?: string }) {
  const parts = line(children).split(IDS)
  return <>{parts.map((part, place) => (place % 2 && part !== own ? <RunLink key={place} id={part} /> : part))}</>
}

export function Copy({ text, label = 'Copy' }: { text: string | (() => string); label?: string }) {
  const [done, set] = useState('')
  const copy = () => {
    const value = typeof text === 'function' ? text() : text
    const ok = () => set('Copied')
    if (navigator.clipboard) navigator.clipboard.writeText(value).then(ok, () => set('Not allowed'))
    else {
      // Without TLS, a browser has no clipboard for a page of another machine: the old way works there.
      const area = document.createElement('textarea')
      area.value = value
      document.body.append(area)
      area.select()
      document.execCommand('copy') ? ok() : set('Not allowed')
      area.remove()
    }
    setTimeout(() => set(''), 1500)
  }
  return (
    <button type="button" class="quiet" onClick={copy} aria-live="polite">
      {done || label}
    </button>
  )
}

export function save(name: string, text: string) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}

/** An error in a sentence, and a way on. */
export function Trouble({ problem, again }: { problem: unknown; again?: () => void }) {
  const known = problem instanceof Problem
  const text = known && problem.code !== 'away' ? problem.message : 'The server cannot be reached.'
  return (
    <div class="trouble" role="alert">
      <p>
        <Text>{text}</Text> {known && problem.code !== 'away' && <code class="faint">{problem.code}</code>}
      </p>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  )
}

/** What is read: grey bars until it comes, an error, or the thing itself. */
export function Shown<T>({ of, rows = 6, children }: { of: Reading<T>; rows?: number; children: (data: T) => ComponentChildren }) {
  if (of.data !== undefined) return <>{children(of.data)}</>
  if (of.problem) return <Trouble problem={of.problem} again={of.again} />
  return <Bones rows={rows} />
}

export const Bones = ({ rows }: { rows: number }) => (
  <div class="bones" aria-busy="true" aria-label="Loading">
    {Array.from({ length: rows }, (_, place) => (
      <div key={place} />
    ))}
  </div>
)

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>

export function Section({ title, side, children, id }: { title: string; side?: ComponentChildren; children: ComponentChildren; id?: string }) {
  return (
    <section aria-labelledby={`h-${id ?? title}`}>
      <header>
        <h2 id={`h-${id ?? title}`}>{title}</h2>
        {side && <div class="side">{side}</div>}
      </header>
      {children}
    </section>
  )
}

/** A part of a whole, as a bar. */
export const Bar = ({ part, whole, kind = 'working', label }: { part: number; whole: number; kind?: string; label: string }) => (
  <span class="bar" role="img" aria-label={label}>
    <span class={`fill ${kind}`} style={{ width: `${whole ? Math.min(100, (100 * part) / whole) : 0}%` }} />
  </span>
)

export const toast = signal<{ text: string; to?: string; bad?: boolean } | null>(null)
let hiding = 0

/** Say what an action has done; a link leads to it. */
export function say(text: string, to?: string, bad = false) {
  toast.value = { text, to, bad }
  clearTimeout(hiding)
  hiding = setTimeout(() => (toast.value = null), 8000) as unknown as number
}

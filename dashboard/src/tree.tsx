// A JSON value as a tree. It is drawn only as far as it is opened, so depth and size cost nothing.
import { useState } from 'preact/hooks'
import { Exact } from './api'
import { Copy } from './bits'
import { count, visible } from './text'

const FIRST = 50 // children drawn at once
const LONG = 2000 // characters of a text drawn at once

export function Tree({ value, name }: { value: unknown; name: string }) {
  const [raw, set] = useState(false)
  return (
    <div class="json">
      <div class="side">
        <button type="button" class="quiet" aria-pressed={raw} onClick={() => set(!raw)}>
          {raw ? 'Tree' : 'Raw'}
        </button>
        <Copy text={() => written(value)} />
      </div>
      {raw ? <Long text={written(value, 2)} /> : <Node value={value} name={name} open deep={0} />}
    </div>
  )
}

function Node({ value, name, open, deep }: { value: unknown; name: string; open?: boolean; deep: number }) {
  const [shown, show] = useState(open ?? false)
  const [most, more] = useState(FIRST)
  if (value === null || typeof value !== 'object' || value instanceof Exact)
    return (
      <div class="leaf">
        <Name>{name}</Name>
        <Leaf value={value} />
      </div>
    )
  const isList = Array.isArray(value)
  const entries = isList ? value.map((item, place) => [String(place), item] as const) : Object.entries(value)
  const size = isList ? `[${count(entries.length)}]` : `{${count(entries.length)}}`
  return (
    <div>
      <button type="button" class="twist" aria-expanded={shown} onClick={() => show(!shown)}>
        <span aria-hidden="true">{shown ? '▾' : '▸'}</span> <Name>{name}</Name>
        <span class="faint">{size}</span>
      </button>
      {shown && (
        <div class={deep < 24 ? 'inner' : 'inner flat'}>
          {entries.slice(0, most).map(([key, item]) => (
            <Node key={key} name={key} value={item} deep={deep + 1} open={deep < 1 && entries.length <= 20} />
          ))}
          {entries.length > most && (
            <button type="button" class="quiet" onClick={() => more(most + 1000)}>
              {count(entries.length - most)} more
            </button>
          )}
        </div>
      )}
    </div>
  )
}

const Name = ({ children }: { children: string }) => (children ? <span class="name">{visible(children)}: </span> : null)

function Leaf({ value }: { value: unknown }) {
  if (typeof value === 'string') return value.length > LONG ? <Long text={value} /> : <span class="text">{value ? visible(value) : <span class="faint">empty text</span>}</span>
  return <span class="value">{value instanceof Exact ? value.source : String(value)}</span>
}

/** A long text: its beginning, and the rest on demand. */
export function Long({ text }: { text: string }) {
  const [whole, set] = useState(false)
  return (
    <>
      <pre>{visible(whole ? text : text.slice(0, LONG))}</pre>
      {!whole && text.length > LONG && (
        <button type="button" class="quiet" onClick={() => set(true)}>
          all {count(text.length)} characters
        </button>
      )}
    </>
  )
}

export function written(value: unknown, indent?: number): string {
  if (typeof value === 'string' && indent === undefined) return value
  const marked = JSON.stringify(value, (_, part) => (part instanceof Exact ? `\u0000${part.source}\u0000` : part), indent)
  return (marked ?? 'null').replace(/"\\u0000(-?\d+)\\u0000"/g, '$1')
}

// Actions: a dialog says what will happen, takes its key when it opens, waits for the answer, and offers the command.
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { isAway, newKey, Problem } from './api'
import { Copy, say } from './bits'
import { away } from './live'
import { mayNot } from './me'
import { visible } from './text'
import type { Row } from './operations'

export interface Field {
  name: string
  label: string
  kind?: 'line' | 'json' | 'time' | 'check'
  value?: string
  required?: boolean
  hint?: string
}

export type Values = Record<string, string>

export interface Act {
  operation: Row
  title: string
  says: ComponentChildren
  button: string
  bad?: boolean
  fields?: Field[]
  /** Ask how many it would reach, before it does anything. */
  preview?: (values: Values) => Promise<string>
  command: (values: Values) => string
  run: (values: Values, key: string) => Promise<{ text: string; to?: string } | string>
  done?: () => void
}

const open = signal<Act | null>(null)

/** Return why the operation cannot be done now; empty if it can. */
export const obstacle = (operation: Row) => (away.value ? 'The server is away; nothing can be done until it answers.' : mayNot(operation))

export function Action({ act, label, why, main }: { act: Act; label?: string; why?: string; main?: boolean }) {
  const reason = why || obstacle(act.operation)
  return (
    <button
      type="button"
      class={`${main ? 'main' : ''} ${act.bad ? 'danger' : ''}`}
      aria-disabled={reason ? 'true' : undefined}
      title={reason || undefined}
      onClick={() => (reason ? say(reason, undefined, true) : (open.value = act))}
    >
      {label ?? act.button}
    </button>
  )
}

export function Dialog() {
  const act = open.value
  return act ? <Asking key={act.title} act={act} /> : null
}

function Asking({ act }: { act: Act }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const key = useRef(newKey())
  const [values, set] = useState<Values>(() => Object.fromEntries((act.fields ?? []).map((field) => [field.name, field.value ?? ''])))
  const [state, setState] = useState<{ under?: boolean; problem?: unknown }>({})
  useEffect(() => {
    dialog.current!.showModal()
  }, [])
  const [reach, setReach] = useState('')
  useEffect(() => {
    if (!act.preview) return
    let isOver = false
    const timer = setTimeout(() => act.preview!(values).then((text) => isOver || setReach(text), (problem) => isOver || setReach(problem instanceof Problem ? problem.message : '')), 300)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [JSON.stringify(values)])
  const close = () => (open.value = null)
  const bad = (act.fields ?? []).map((field) => faultOf(field, values[field.name]!)).find(Boolean)
  const submit = async (event: Event) => {
    event.preventDefault()
    if (bad) return setState({ problem: new Problem(0, '', bad) })
    setState({ under: true })
    try {
      const found = await act.run(values, key.current)
      const { text, to } = typeof found === 'string' ? { text: found, to: undefined } : found
      close()
      say(text, to)
      act.done?.()
    } catch (problem) {
      setState({ problem })
    }
  }
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="ask-title">
      <form onSubmit={submit} method="dialog">
        <h2 id="ask-title">{act.title}</h2>
        <div class="prose">{act.says}</div>
        {act.preview && <p class="reach" aria-live="polite">{visible(reach) || 'Counting…'}</p>}
        {(act.fields ?? []).map((field) => (
          <label key={field.name} class={field.kind === 'check' ? 'check' : ''}>
            <span>
              {field.label}
              {field.required && <span class="faint"> (needed)</span>}
            </span>
            {field.kind === 'json' ? (
              <textarea class="mono" rows={8} spellcheck={false} value={values[field.name]} onInput={(event) => set({ ...values, [field.name]: event.currentTarget.value })} />
            ) : field.kind === 'check' ? (
              <input type="checkbox" checked={values[field.name] === 'true'} onChange={(event) => set({ ...values, [field.name]: String(event.currentTarget.checked) })} />
            ) : (
              <input type={(field.kind === 'time' ? 'datetime-local' : 'text') as 'text'} maxLength={500} value={values[field.name]} onInput={(event) => set({ ...values, [field.name]: event.currentTarget.value })} />
            )}
            {field.hint && <span class="faint">{field.hint}</span>}
          </label>
        ))}
        {state.problem !== undefined && (
          <p class="fault" role="alert">
            {state.problem instanceof Problem && !isAway(state.problem) ? (
              <>
                {visible(state.problem.message)} {state.problem.code && <code class="faint">{state.problem.code}</code>}
              </>
            ) : (
              'No answer came. It may have been done or not; try again: the same key finds the same request.'
            )}
          </p>
        )}
        <footer>
          <Copy label="Copy as command" text={() => act.command(values)} />
          <span class="grow" />
          <button type="button" onClick={close}>
            Back
          </button>
          <button type="submit" class={`main ${act.bad ? 'danger' : ''}`} disabled={state.under}>
            {state.under ? 'Waiting for the answer…' : act.button}
          </button>
        </footer>
      </form>
    </dialog>
  )
}

function faultOf(field: Field, value: string): string {
  if (field.required && !value.trim()) return `${field.label}: needed.`
  if (field.kind !== 'json' || !value.trim()) return ''
  try {
    JSON.parse(value)
    return ''
  } catch (error) {
    return `${field.label}: not JSON: ${(error as Error).message}`
  }
}

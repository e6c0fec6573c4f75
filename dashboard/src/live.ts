// The event stream: read with fetch, applied every 250 ms, read again after a gap, a sleep or silence.
import { batch, signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { SERVER, Problem, answerOf, isAway } from './api'
import { here } from './route'
import { secret } from './me'
import type { Events, HistoryEntry, Json, LogLine, ProgressEvent } from './types'

export type LiveEvent = { [K in keyof Events]: { name: K; data: Events[K] } }[keyof Events]

const APPLY = 250 // ms between two applications of events
const SILENCE = 40_000 // ms without a byte after which the connection is dead; the server sends a comment every 15 s
const SLEPT = 10_000 // ms that a timer may be late
const FIRST_TRY = 500
const LAST_TRY = 10_000

/** The present time in seconds; pages that show ages follow it. */
export const now = signal(Date.now() / 1000)
/** Whether the server answers: null while nothing is known, otherwise since when it does not. */
export const away = signal<{ since: number; heard: number; next: number } | null>(null)
export const live = signal(false)
/** Whether more changes happen than are sent one by one. */
export const busy = signal(false)

/** Everything that the stream of one run has told: what was stored before, and what comes. */
export interface Told {
  run: string
  last: string // cursor of the last stored event
  whole: boolean // whether everything stored has come
  lines: LogLine[]
  history: HistoryEntry[]
  chunks: Json[]
  progress: ProgressEvent | null
}
const nothing = (run: string): Told => ({ run, last: 'start', whole: false, lines: [], history: [], chunks: [], progress: null })
export const told = signal<Told>(nothing(''))

type Listener = { names: ReadonlySet<string>; apply: (events: LiveEvent[] | null) => void }
const listeners = new Set<Listener>()
let pending: LiveEvent[] = []
let last = '' // id of the last event taken
let hellos = 0 // of this stream: a second one says that everything stored has come
let stale = false // whether events were lost, so that everything must be read again
let heard = Date.now() // the last sign of life
let stream: AbortController | null = null
let retry = FIRST_TRY
let timer = 0
let turned = Date.now()

/** Tell of a request: pages that read are a sign of life too. */
export function noteAnswer(error?: unknown) {
  if (error !== undefined && isAway(error)) {
    if ((error as Error).name !== 'AbortError' && !away.peek()) lost()
    return
  }
  heard = Date.now()
  away.value = null
}

function lost() {
  live.value = false
  const next = Date.now() + retry
  away.value = { since: away.peek()?.since ?? Date.now() / 1000, heard: heard / 1000, next: next / 1000 }
  clearTimeout(timer)
  timer = setTimeout(open, retry) as unknown as number
  retry = Math.min(retry * 2, LAST_TRY)
}

export function tryNow() {
  clearTimeout(timer)
  open()
}

/** The stream of the page: the log of one run, or the changes of everything. */
function wanted(): URL {
  const [page, id] = here.peek().parts
  const address = new URL('api/v1/events', SERVER)
  if (page === 'runs' && id) {
    address.searchParams.set('run', id)
    address.searchParams.set('after', told.peek().run === id ? told.peek().last : 'start')
  }
  else if (page === 'services' && id) address.searchParams.set('service', id)
  else for (const kind of ['run', 'service', 'lane', 'job', 'session', ...(page ? [] : ['overview'])]) address.searchParams.append('type', kind)
  return address
}

/** A browser opens six connections to a host, so at most four pages hold a stream; others look every two seconds. */
const STREAMS = 4
const LOOK = 2000

/** Return whether this page may hold a stream, until the signal says that it ended. */
async function takesStream(signal: AbortSignal): Promise<boolean> {
  if (!navigator.locks) return true // a page of another machine without TLS
  for (let number = 0; number < STREAMS; number += 1) {
    const has = await new Promise<boolean>((resolve) => {
      void navigator.locks.request(`interlock-stream-${number}`, { ifAvailable: true }, (lock) => {
        resolve(lock !== null)
        if (lock && !signal.aborted) return new Promise<void>((free) => signal.addEventListener('abort', () => free()))
      })
    })
    if (has) return true
  }
  return false
}

function lookAgain() {
  stale = true
  live.value = true
  clearTimeout(timer)
  timer = setTimeout(open, LOOK) as unknown as number
}

async function open() {
  stream?.abort()
  if (document.hidden) return
  const mine = (stream = new AbortController())
  const stays = await takesStream(mine.signal)
  if (mine !== stream) return
  if (!stays && !wanted().searchParams.has('after')) return lookAgain()
  try {
    const response = await fetch(wanted(), { headers: { accept: 'text/event-stream', ...secret() }, signal: mine.signal, cache: 'no-store' })
    if (!response.ok || !/event-stream/.test(response.headers.get('content-type') ?? '')) await answerOf(response)
    heard = Date.now()
    retry = FIRST_TRY
    hellos = 0
    batch(() => {
      live.value = true
      away.value = null
    })
    stale = true
    await read(response, mine, stays)
    if (!stays && hellos > 1) return lookAgain()
    throw new TypeError('the stream ended')
  } catch (error) {
    if (mine !== stream || (mine.signal.aborted && document.hidden)) return
    mine.abort()
    if (error instanceof Problem && !isAway(error)) {
      live.value = false
      // The page says why; a stream that is refused is asked for again when the address changes.
      return
    }
    lost()
  }
}

async function read(response: Response, mine: AbortController, stays: boolean) {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  while (mine === stream) {
    const { done, value } = await reader.read()
    if (done) return
    heard = Date.now()
    const blocks = (rest + value).split('\n\n')
    rest = blocks.pop()!
    for (const block of blocks) take(block)
    if (!stays && hellos > 1) return mine.abort()
  }
}

function take(block: string) {
  let name = ''
  let data = ''
  for (const line of block.split('\n')) {
    if (line.startsWith('id: ')) last = line.slice(4)
    if (line.startsWith('event: ')) name = line.slice(7)
    else if (line.startsWith('data: ')) data += line.slice(6)
  }
  if (!data) return
  if (name === 'gap') {
    stale = true
    busy.value = true
    setTimeout(() => (busy.value = false), 5000)
  } else if (name === 'hello') hellos += 1
  else pending.push({ name, data: JSON.parse(data) } as LiveEvent)
}

function apply() {
  if (!pending.length && !stale && !(told.peek().run && hellos > 1 && !told.peek().whole)) return
  const events = pending
  const again = stale
  pending = []
  stale = false
  batch(() => {
    note(events)
    for (const listener of [...listeners])
      if (again) listener.apply(null)
      else {
        const mine = events.filter((event) => listener.names.has(event.name))
        if (mine.length) listener.apply(mine)
      }
  })
}

/** Add to what is told of the run that the stream is about. */
function note(events: LiveEvent[]) {
  const [page, id = ''] = here.peek().parts
  if (page !== 'runs' || !id) return
  const before = told.peek().run === id ? told.peek() : nothing(id)
  const after = { ...before, last: last || before.last, whole: before.whole || hellos > 1 }
  const of = events.filter((event) => 'run_id' in event.data && event.data.run_id === id)
  after.lines = joined(before.lines, of.flatMap((event) => (event.name === 'log' ? [event.data] : [])))
  after.history = joined(before.history, of.flatMap((event) => (event.name === 'run' ? event.data.transitions : [])))
  after.chunks = joined(before.chunks, of.flatMap((event) => (event.name === 'chunk' ? event.data.chunks : [])))
  for (const event of of) if (event.name === 'progress') after.progress = event.data
  told.value = after
}

const joined = <T,>(before: T[], more: T[]) => (more.length ? before.concat(more) : before)

export function startLive() {
  setInterval(apply, APPLY)
  setInterval(() => {
    const at = Date.now()
    now.value = at / 1000
    if (at - turned > SLEPT || (live.peek() && at - heard > SILENCE)) void open()
    turned = at
  }, 1000)
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
      clearTimeout(timer)
      stream?.abort()
    } else void open()
  })
  const subject = () => wanted().href.replace(/&?after=[^&]*/, '')
  let shown = subject()
  here.subscribe(() => {
    if (subject() === shown) return
    shown = subject()
    last = ''
    void open()
  })
  void open()
}

/** Call `apply` with the events of these names; with null when some were lost. */
export function useEvents(names: (keyof Events)[], apply: (events: LiveEvent[] | null) => void) {
  const latest = useRef(apply)
  latest.current = apply
  useEffect(() => {
    const listener: Listener = { names: new Set<string>(names), apply: (events) => latest.current(events) }
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, [names.join()])
}

export interface Reading<T> {
  data: T | undefined
  problem: unknown
  again: () => void
}

const LEAST = 1000 // ms between two reads of the same thing

/**
 * Read something, and again whenever one of these events tells of a change; at most once a second, and never before
 * the last answer. `key` names what is read: with another one, what was read before is forgotten.
 */
export function useRead<T>(key: string, reading: () => Promise<T>, events: (keyof Events)[] = [], wanted: (event: LiveEvent) => boolean = () => true, every = 0): Reading<T> {
  const [state, set] = useState<{ key: string; data?: T; problem?: unknown }>({ key })
  const work = useRef({ key: '', under: false, owed: false, timer: 0, ended: 0 })
  const latest = useRef(reading)
  latest.current = reading
  const again = useRef(() => {}).current
  const run = useRef<() => void>(again)
  run.current = () => {
    const own = work.current
    if (own.under || own.timer) {
      own.owed = true
      return
    }
    const wait = own.ended + LEAST - Date.now()
    if (wait > 0) {
      own.timer = setTimeout(() => ((own.timer = 0), run.current()), wait) as unknown as number
      return
    }
    own.under = true
    const asked = own.key
    const finish = (found: { data?: T; problem?: unknown }) => {
      own.under = false
      own.ended = Date.now()
      if (own.key === asked) set((before) => ({ key: asked, ...(found.problem !== undefined && before.key === asked ? { data: before.data } : {}), ...found }))
      else own.ended = 0
      if (own.owed || own.key !== asked) {
        own.owed = false
        if (own.key) run.current()
      }
    }
    latest.current().then(
      (data) => (noteAnswer(), finish({ data })),
      (problem) => (noteAnswer(problem), finish({ problem })),
    )
  }
  useEffect(() => {
    const own = work.current
    own.key = key
    own.ended = 0
    clearTimeout(own.timer)
    own.timer = 0
    run.current()
    return () => {
      own.key = ''
      clearTimeout(own.timer)
      own.timer = 0
    }
  }, [key])
  useEffect(() => {
    if (!every) return
    const ticking = setInterval(() => !document.hidden && !away.peek() && run.current(), every)
    return () => clearInterval(ticking)
  }, [key, every])
  useEvents(events, (found) => {
    if (found === null || found.some(wanted)) run.current()
  })
  return { data: state.key === key ? state.data : undefined, problem: state.key === key ? state.problem : undefined, again: () => run.current() }
}

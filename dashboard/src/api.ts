// Requests to the server: typed by the table of operations, relative to where the page is served.
import type { Row } from './operations'
import type { Operations, ProblemDetails } from './types'
import { secret, signedOut } from './me'

/** The folder that has `ui/`: the server, or the path below which a proxy serves it. */
export const SERVER = new URL('../', document.baseURI)

/** An answer that is not the one asked for: a sentence for people, and a stable code. */
export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, detail: string) {
    super(detail)
  }
}

/** The server gave no answer of its own: it is away, or something before it answers in its place. */
export const isAway = (error: unknown) => !(error instanceof Problem) || error.code === 'away'

export type Given<K extends keyof Operations> = {
  path?: Operations[K]['path']
  query?: Partial<Operations[K]['query']>
  body?: Operations[K]['body']
  key?: string
  signal?: AbortSignal
}

export function addressOf<K extends keyof Operations>(operation: Row<K>, given: Pick<Given<K>, 'path' | 'query'> = {}): URL {
  const values = (given.path ?? {}) as Record<string, string>
  const path = operation.path.replace(/\{(\w+)\}/g, (_, part: string) => encodeURIComponent(values[part] ?? '').replaceAll('.', '%2E'))
  const address = new URL(path, SERVER)
  for (const [part, value] of Object.entries(given.query ?? {}))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null && one !== '') address.searchParams.append(part, String(one))
  return address
}

export async function ask<K extends keyof Operations>(operation: Row<K>, given: Given<K> = {}): Promise<Operations[K]['answer']> {
  const headers: Record<string, string> = { accept: 'application/json', ...secret() }
  if (given.body !== undefined) headers['content-type'] = 'application/json'
  if (given.key) headers['idempotency-key'] = given.key
  const init: RequestInit = { method: operation.method, headers, cache: 'no-store', credentials: 'same-origin' }
  if (given.body !== undefined) init.body = JSON.stringify(given.body)
  if (given.signal) init.signal = given.signal
  return (await answerOf(await fetch(addressOf(operation, given), init))) as Operations[K]['answer']
}

export async function answerOf(response: Response): Promise<unknown> {
  const text = await response.text()
  if (!/json/.test(response.headers.get('content-type') ?? ''))
    throw new Problem(response.status, 'away', `something before the server answered ${response.status}`)
  const found = parse(text)
  // Readiness is an answer whatever its status.
  if (response.ok || (response.status === 503 && found && typeof found === 'object' && 'ready' in found)) return found
  const problem = found as ProblemDetails
  if (response.status === 401 && !response.url.endsWith('/sign-in')) signedOut.value = problem.detail
  throw new Problem(response.status, problem.code, problem.detail)
}

/** A number that JavaScript would round, as it was sent. */
export class Exact {
  constructor(readonly source: string) {}
}

function parse(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text)
  const keep = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && context?.source && /^-?\d{16,}$/.test(context.source) ? new Exact(context.source) : value
  return JSON.parse(text, keep)
}

/** Return a key for one action: a repeated request finds the first. */
export function newKey(): string {
  return `ui-${[...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

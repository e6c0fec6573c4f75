// Who is signed in, and what they may do.
import { signal } from '@preact/signals'
import type { Row } from './operations'
import type { Me } from './types'

/** The caller as the server knows them; null until it has said so. */
export const me = signal<Me | null>(null)
/** Why a token is asked for; empty while none is. */
export const signedOut = signal('')

const NAME = 'interlock-secret'

/** Return the headers that, beside the cookie, prove who asks. */
export function secret(): Record<string, string> {
  const kept = localStorage.getItem(NAME)
  return kept ? { 'x-interlock-secret': kept } : {}
}

export function keep(found: string | null) {
  if (found) localStorage.setItem(NAME, found)
  else localStorage.removeItem(NAME)
}

/** Return why the caller may not do this; empty if they may. */
export function mayNot({ permission, everyTenant }: Row): string {
  const known = me.value
  if (!known || permission === null) return ''
  if (!known.may.includes(permission)) return known.may_not[permission] ?? 'You may not do this.'
  return everyTenant && !known.may.includes('every tenant') ? (known.may_not['every tenant'] ?? 'Your token is for one tenant.') : ''
}

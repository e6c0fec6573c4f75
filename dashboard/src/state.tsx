// A state is an icon, a word and one of six colours.
import type { State } from './types'

export type Family = 'inert' | 'waiting' | 'policy' | 'working' | 'good' | 'bad'

const RING = 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11'
const HALF = `${RING}M8 8V2.5a5.5 5.5 0 0 1 0 11z`
const QUARTER = `${RING}M8 8V2.5A5.5 5.5 0 0 1 13.5 8z`
const CROSS = 'M3.5 3.5l9 9M12.5 3.5l-9 9'
const PLAY = 'M4 2.5l9 5.5l-9 5.5z'

/** Family and drawing of each; `*` before it fills the shape. */
const LOOKS: Record<State, [Family, string]> = {
  prerun: ['inert', RING],
  cancelled: ['inert', `${RING}M4.1 4.1l7.8 7.8`],
  skipped: ['inert', 'M2 8h9M8 4.5L11.5 8L8 11.5M14 3.5v9'],
  pending: ['waiting', QUARTER],
  condition_pending: ['waiting', QUARTER],
  condition_running: ['waiting', HALF],
  action_pending: ['waiting', QUARTER],
  action_running: ['waiting', HALF],
  scheduled: ['waiting', 'M2.5 4h11M2.5 8h11M2.5 12h11'],
  retrying: ['waiting', 'M13 8a5 5 0 1 1-1.6-3.7M13.4 1.8v3.4H10'],
  approval_required: ['policy', '*M8 1.5L14.5 8L8 14.5L1.5 8z'],
  denied: ['policy', `${RING}M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2`],
  output_quarantined: ['policy', 'M8 2L14.5 13.5H1.5zM8 6.5v3.4M8 11.6v.4'],
  dispatched: ['working', PLAY],
  starting: ['working', PLAY],
  running: ['working', `*${PLAY}`],
  terminating: ['working', 'M3 3h10v10H3zM8 3v10'],
  under_way: ['working', 'M2 5h9M8.5 2.5L11 5L8.5 7.5M5 11h9M11.5 8.5L14 11l-2.5 2.5'],
  succeeded: ['good', 'M2.5 8.5L6.3 12.3L13.5 4'],
  failed: ['bad', CROSS],
  timeout: ['bad', 'M4 2.5h8M4 13.5h8M5 2.5c0 3 6 8 6 11M11 2.5c0 3-6 8-6 11'],
  orphaned: ['bad', 'M5 5.6a3 3 0 1 1 4 2.8c-.7.4-1 .9-1 1.8M8 12.6v.6'],
}

export const familyOf = (state: State): Family => LOOKS[state]?.[0] ?? 'inert'
export const wordOf = (state: string) => state.replaceAll('_', ' ')

export function Icon({ path, family }: { path: string; family: Family | 'accent' | 'ink' }) {
  const filled = path.startsWith('*')
  return (
    <svg class={`icon ${family}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={filled ? path.slice(1) : path} fill={filled ? 'currentColor' : 'none'} stroke="currentColor" stroke-width="1.8" stroke-linejoin="round" stroke-linecap="round" />
    </svg>
  )
}

export const SIGNS = {
  pause: '*M4 3h2.6v10H4zM9.4 3H12v10H9.4z',
  dot: '*M8 3.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9',
  cross: CROSS,
  warning: LOOKS.output_quarantined[1],
  person: LOOKS.approval_required[1],
  check: LOOKS.succeeded[1],
  repeat: LOOKS.retrying[1],
}

/** The icon inside a drawing of its own. */
export function StateIcon({ state }: { state: State }) {
  const [family, path] = LOOKS[state] ?? ['inert', RING]
  return (
    <svg x="10" y="14" width="16" height="16" viewBox="0 0 16 16" class={`icon ${family}`}>
      <path d={path.replace('*', '')} fill={path.startsWith('*') ? 'currentColor' : 'none'} stroke="currentColor" stroke-width="1.8" stroke-linejoin="round" stroke-linecap="round" />
    </svg>
  )
}

export function StateMark({ state, bare }: { state: State; bare?: boolean }) {
  const [family, path] = LOOKS[state] ?? ['inert', RING]
  return (
    <span class="state" title={bare ? wordOf(state) : undefined}>
      <Icon path={path} family={family} />
      {bare ? <span class="unseen">{wordOf(state)}</span> : wordOf(state)}
    </span>
  )
}

// The frame of every page: navigation, the line of the connection, keys.
import * as op from './operations'
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Dialog } from './action'
import { toast } from './bits'
import { Icon, SIGNS } from './state'
import { ask } from './api'
import { me, signedOut } from './me'
import { SignedIn, SignIn } from './pages/sign-in'
import { away, busy, live, now, startLive, tryNow } from './live'
import { PAGES, pageOf } from './pages'
import { followLinks, go, here, Link } from './route'
import { rowKeys } from './table'
import { clock, span } from './text'
import './style.css'

function Frame() {
  const [help, setHelp] = useState(false)
  const [page, content] = pageOf(here.value.parts)
  useEffect(() => {
    document.title = page === PAGES[0] ? 'Interlock' : `${page?.title ?? 'Not found'} · Interlock`
  }, [page, here.value.path])
  useEffect(() => keys(() => setHelp((shown) => !shown)), [])
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <Link to="./" class="brand">
          Interlock
        </Link>
        <nav aria-label="Pages">
          {PAGES.filter((one) => one.first).map((one) => (
            <Link key={one.path} to={one.path || './'} current={one === page}>
              {one.title}
            </Link>
          ))}
        </nav>
        <More current={page?.path} />
        <span class="grow" />
        <SignedIn />
        <Connection />
        <button type="button" class="quiet" aria-label="Keys" onClick={() => setHelp(true)}>
          ?
        </button>
      </header>
      <Away />
      <main id="main" tabIndex={-1}>
        {signedOut.value ? <SignIn /> : content}
      </main>
      <Dialog />
      {help && <Help close={() => setHelp(false)} />}
      <div class="toasts" role="status">
        {toast.value && (
          <p class={toast.value.bad ? 'bad' : ''}>
            {toast.value.text} {toast.value.to && <Link to={toast.value.to}>Open</Link>}
          </p>
        )}
      </div>
    </>
  )
}

function More({ current }: { current?: string }) {
  const others = PAGES.filter((one) => !one.first && one.title)
  const here = others.find((one) => one.path === current)
  if (!others.length) return null
  return (
    <details class="more" key={current}>
      <summary>{here ? here.title : 'More'}</summary>
      <nav aria-label="More pages">
        {PAGES.filter((one) => one.title).map((one) => (
          <Link key={one.path} to={one.path || './'} current={one.path === current} class={one.first ? 'in-more' : ''}>
            {one.title}
          </Link>
        ))}
      </nav>
    </details>
  )
}

function Connection() {
  if (away.value) return <span class="connection bad">● away</span>
  return (
    <span class={`connection ${live.value ? 'good' : ''}`} title={live.value ? 'Changes show at once' : 'Connecting'}>
      <Icon path={SIGNS.dot} family={live.value ? 'good' : 'inert'} /> {live.value ? 'live' : '…'}
    </span>
  )
}

function Away() {
  if (away.value) {
    const { since, heard, next } = away.value
    const text = (at: number) => clock(new Date(at * 1000).toISOString(), now.value)
    return (
      <div class="banner" role="alert">
        No connection since {text(since)}; this is the state of {text(heard)}. Next try in {span(Math.max(0, Math.round(next - now.value)))}{' '}
        <button type="button" onClick={tryNow}>
          now
        </button>
      </div>
    )
  }
  return busy.value ? <div class="banner calm">More changes than fit: refreshed every 2 s.</div> : null
}

const KEYS: Record<string, [string, string]> = {
  n: ['', 'Now'],
  r: ['runs', 'Runs'],
  j: ['jobs', 'Jobs'],
  t: ['timetable', 'Timetable'],
  a: ['approvals', 'Approvals'],
  d: ['dead-letters', 'Dead letters'],
  w: ['workers', 'Workers'],
  l: ['lanes', 'Lanes'],
}
const known = () => Object.entries(KEYS).filter(([, [path]]) => PAGES.some((page) => page.path === path))

function keys(help: () => void) {
  let before = ''
  let timer = 0
  const pressed = (event: KeyboardEvent) => {
    if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector('dialog[open]')) return
    if ((event.target as Element).closest('input,textarea,select,[contenteditable]')) {
      if (event.key === 'Escape') (event.target as HTMLElement).blur()
      return
    }
    const target = before === 'g' && known().find(([key]) => key === event.key)
    before = ''
    clearTimeout(timer)
    if (target) go(target[1][0] || './')
    else if (event.key === 'g') {
      before = 'g'
      timer = setTimeout(() => (before = ''), 1500) as unknown as number
      return
    } else if (event.key === '/') {
      const field = document.querySelector<HTMLInputElement>('input[type=search]')
      if (field) field.focus()
      else go('runs')
    } else if (event.key === '?') help()
    else if (!rowKeys(event)) return
    event.preventDefault()
  }
  addEventListener('keydown', pressed)
  return () => removeEventListener('keydown', pressed)
}

const shown = (found: HTMLDialogElement | null) => {
  if (found && !found.open) found.showModal()
}

function Help({ close }: { close: () => void }) {
  return (
    <dialog ref={shown} onClose={close} aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl class="facts">
        {known().map(([key, [, title]]) => (
          <>
            <dt>
              <kbd>g</kbd> <kbd>{key}</kbd>
            </dt>
            <dd>{title}</dd>
          </>
        ))}
        <dt>
          <kbd>/</kbd>
        </dt>
        <dd>Search</dd>
        <dt>
          <kbd>j</kbd> <kbd>k</kbd>
        </dt>
        <dd>Next and previous row; Enter opens it</dd>
        <dt>
          <kbd>?</kbd>
        </dt>
        <dd>This list; Escape closes it</dd>
      </dl>
      <footer>
        <button type="button" class="main" onClick={close}>
          Close
        </button>
      </footer>
    </dialog>
  )
}

async function introduce() {
  try {
    me.value = await ask(op.me)
  } catch {
    // The page says what is wrong; what may be done is asked again with the next connection.
  }
}

followLinks()
live.subscribe((is) => is && void introduce())
startLive()
render(<Frame />, document.body)

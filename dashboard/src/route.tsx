// The address: which page is shown, and its filters.
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'

const BASE = new URL('./', document.baseURI)
// The way back to `ui/` is relative to the first address; later ones have other depths.
document.querySelector('base')!.href = BASE.pathname

export const here = signal(read())

function read() {
  const path = location.pathname.startsWith(BASE.pathname) ? location.pathname.slice(BASE.pathname.length) : ''
  return { path, parts: path.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(location.search), hash: location.hash }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

addEventListener('popstate', () => (here.value = read()))

export function go(to: string, replace = false) {
  history[replace ? 'replaceState' : 'pushState'](null, '', new URL(to || './', BASE))
  here.value = read()
  if (!replace) scrollTo(0, 0)
}

/** Return the address of a page, relative to `ui/`. */
export function to(page: string, ...parts: string[]): string {
  return [page, ...parts.map(encodeURIComponent)].join('/') || './'
}

/** Change filters of the page; an empty value removes one. */
export function filter(changes: Record<string, string | string[] | null>, replace = true) {
  const query = new URLSearchParams(here.peek().query)
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name)
    for (const one of Array.isArray(value) ? value : [value]) if (one) query.append(name, one)
  }
  const text = query.toString()
  go(here.peek().path + (text ? `?${text}` : '') || './', replace)
}

/** Follow links inside the page without loading it again. */
export function followLinks() {
  document.addEventListener('click', (event) => {
    const link = (event.target as Element).closest?.('a')
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    if (link.target || link.hasAttribute('download') || link.origin !== location.origin || !link.pathname.startsWith(BASE.pathname)) return
    event.preventDefault()
    const address = link.pathname.slice(BASE.pathname.length) + link.search + link.hash
    go(address || './')
  })
}

export function Link(props: { to: string; children: ComponentChildren; class?: string; title?: string; current?: boolean }) {
  return (
    <a href={props.to} class={props.class} title={props.title} aria-current={props.current ? 'page' : undefined}>
      {props.children}
    </a>
  )
}

// Tables: columns are declared, rows have one height, j and k choose a row.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { go } from './route'

export interface Column<T> {
  title: string
  cell: (item: T) => ComponentChildren
  right?: boolean
  mono?: boolean
  /** Its title is for those who hear the page. */
  unseen?: boolean
  /** Cut this one before any other. */
  wide?: boolean
  /** A narrow window leaves out columns with a number, the smallest first. */
  spare?: number
}

/** The keys j, k and Enter move through the rows of the page, whatever draws them. */
export function rowKeys(event: KeyboardEvent): boolean {
  if (!['j', 'k'].includes(event.key)) return false
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')]
  if (!rows.length) return false
  const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement))
  const next = rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + (event.key === 'j' ? 1 : -1)))]!
  next.focus()
  next.scrollIntoView({ block: 'nearest' })
  return true
}

export function Table<T>(props: { name: string; columns: Column<T>[]; items: T[]; id: (item: T) => string; open?: (item: T) => string | null; empty: ComponentChildren; busy?: boolean }) {
  const seen = useRef<Set<string> | null>(null)
  const ids = props.items.map(props.id)
  const fresh = new Set(seen.current?.size ? ids.filter((id) => !seen.current!.has(id)) : [])
  useEffect(() => {
    seen.current = new Set(ids)
  })
  if (!props.items.length) return <p class="empty">{props.empty}</p>
  // A column in which no row has anything is left out.
  const rows = props.items.map((item) => props.columns.map((column) => column.cell(item)))
  const kept = props.columns.map((_, place) => rows.some((row) => row[place] !== null && row[place] !== undefined && row[place] !== ''))
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={props.name}>
      <table>
        <thead>
          <tr>
            {props.columns.map(
              (column, place) =>
                kept[place] && (
                  <th key={column.title} scope="col" class={classOf(column)}>
                    {column.unseen ? <span class="unseen">{column.title}</span> : column.title}
                  </th>
                ),
            )}
          </tr>
        </thead>
        <tbody>
          {props.items.map((item, row) => {
            const target = props.open?.(item)
            return (
              <tr
                key={ids[row]}
                class={`${fresh.has(ids[row]!) ? 'fresh' : ''} ${target ? 'opens' : ''}`}
                data-row
                tabIndex={-1}
                onClick={(event) => {
                  if (target && !(event.target as Element).closest('a,button,input') && !getSelection()?.toString()) go(target)
                }}
                onKeyDown={(event) => {
                  if (target && event.key === 'Enter' && event.target === event.currentTarget) go(target)
                }}
              >
                {props.columns.map(
                  (column, place) =>
                    kept[place] && (
                      <td key={column.title} class={classOf(column)}>
                        {rows[row]![place]}
                      </td>
                    ),
                )}
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

const classOf = (column: Column<never> | Column<any>) =>
  [column.right && 'right', column.mono && 'mono', column.wide && 'wide', column.spare && `spare-${column.spare}`].filter(Boolean).join(' ')

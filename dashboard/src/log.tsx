// A log: all of it is searched, copied and saved; only the rows in sight are drawn. Every row has one height.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Copy, Empty, save } from './bits'
import { now } from './live'
import { filter, here } from './route'
import { clock, count, exact, visible } from './text'
import type { LogLine } from './types'

const ROW = 20 // px
const MORE = 20 // rows drawn beyond those in sight

interface Row {
  line: number // from 0, in the whole log
  of: LogLine
  text: string
  isFirst: boolean
}

export function Log({ lines, name, whole, ended }: { lines: LogLine[]; name: string; whole: boolean; ended: boolean }) {
  const [words, setWords] = useState('')
  const [level, setLevel] = useState('')
  const [attempt, setAttempt] = useState('')
  const [follow, setFollow] = useState(!ended)
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(400)
  const box = useRef<HTMLDivElement>(null)
  const marked = Number(here.value.query.get('line') ?? 0) - 1
  const levels = useMemo(() => [...new Set(lines.map((line) => line.level))], [lines])
  const attempts = useMemo(() => [...new Set(lines.map((line) => line.attempt))], [lines])
  const rows = useMemo(() => rowsOf(lines, words.toLowerCase(), level, attempt), [lines, words, level, attempt])
  useEffect(() => {
    const found = box.current
    if (!found) return
    const watch = new ResizeObserver(() => setHeight(found.clientHeight))
    watch.observe(found)
    return () => watch.disconnect()
  }, [lines.length > 0])
  useEffect(() => {
    if (follow && box.current && marked < 0) box.current.scrollTop = box.current.scrollHeight
  }, [rows.length, follow])
  useEffect(() => {
    const place = rows.findIndex((row) => row.line === marked)
    if (place >= 0 && box.current) box.current.scrollTop = Math.max(0, (place - 3) * ROW)
  }, [marked, rows.length > 0])
  const first = Math.max(0, Math.floor(top / ROW) - MORE)
  const drawn = rows.slice(first, Math.ceil((top + height) / ROW) + MORE)
  const text = () => rows.map((row) => (row.isFirst ? `${row.of.at} ${row.of.attempt} ${row.of.level.padEnd(5)} ` : '  ') + row.text).join('\n') + '\n'
  if (!lines.length) return <Empty>{whole ? (ended ? 'The run wrote no log.' : 'No line yet; lines show as they are written.') : 'Reading the log…'}</Empty>
  return (
    <div class="log">
      <div class="filters">
        <label class="grow">
          <span class="unseen">Search in the log</span>
          <input type="search" value={words} placeholder="search in the whole log" onInput={(event) => setWords(event.currentTarget.value)} />
        </label>
        {attempts.length > 1 && (
          <label>
            <span class="unseen">Attempt</span>
            <select value={attempt} onChange={(event) => setAttempt(event.currentTarget.value)}>
              <option value="">every attempt</option>
              {attempts.map((one) => (
                <option key={one} value={one}>{`attempt ${one}`}</option>
              ))}
            </select>
          </label>
        )}
        {levels.length > 1 && (
          <label>
            <span class="unseen">Level</span>
            <select value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
              <option value="">every level</option>
              {levels.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
        )}
        <span class="faint">{words || level || attempt ? `${count(rows.length)} of ${count(lines.length)}` : `${count(lines.length)} lines`}</span>
        {!ended && (
          <button type="button" aria-pressed={follow} onClick={() => setFollow(!follow)}>
            Follow {follow ? '●' : '○'}
          </button>
        )}
        <Copy text={text} />
        <button type="button" class="quiet" onClick={() => save(name, text())}>
          Download
        </button>
      </div>
      <div
        ref={box}
        class="lines"
        tabIndex={0}
        role="log"
        aria-label="Log"
        aria-live="off"
        onScroll={(event) => {
          const found = event.currentTarget
          setTop(found.scrollTop)
          if (!ended && follow && found.scrollTop + found.clientHeight < found.scrollHeight - 3 * ROW) setFollow(false)
        }}
      >
        <div class="all" style={{ height: `${rows.length * ROW}px` }}>
          <div class="drawn" style={{ transform: `translateY(${first * ROW}px)` }}>
            {drawn.map((row, place) => (
              <div key={first + place} class={`row ${row.of.level} ${row.line === marked ? 'marked' : ''}`}>
                {row.isFirst ? (
                  <>
                    <button type="button" class="at" title={`${exact(row.of.at)}\nLink to this line`} onClick={() => filter({ tab: 'log', line: String(row.line + 1) })}>
                      {clock(row.of.at, now.peek(), true)}
                    </button>
                    {attempts.length > 1 && <span class="attempt">{row.of.attempt}</span>}
                    <span class="level">{row.of.level}</span>
                  </>
                ) : (
                  <>
                    <span class="at" />
                    {attempts.length > 1 && <span class="attempt"> </span>}
                    <span class="level" />
                  </>
                )}
                <span class="said">{row.text}</span>
              </div>
            ))}
          </div>
        </div>
      </div>
    </div>
  )
}

function rowsOf(lines: LogLine[], words: string, level: string, attempt: string): Row[] {
  const rows: Row[] = []
  lines.forEach((of, line) => {
    if ((level && of.level !== level) || (attempt && String(of.attempt) !== attempt)) return
    if (words && !of.text.toLowerCase().includes(words)) return
    of.text.split(/\r\n|\r|\n/).forEach((text, place) => rows.push({ line, of, text: visible(text), isFirst: !place }))
  })
  return rows
}

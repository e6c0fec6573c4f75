// Texts as people read them: times, spans, counts, and characters that cannot be seen.

/** Control, bidirectional, zero-width and tag characters, and halves of a pair: they would hide or turn what stands beside them. */
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff]|[\u{e0000}-\u{e0fff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu

/** Return the text with a symbol for every character that cannot be seen. Lines and tabs stay. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, symbol)
}

const CONTROLS = 'NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(' ')

function symbol(character: string): string {
  const code = character.codePointAt(0)!
  if (code < 0x20) return `⟨${CONTROLS[code]}⟩`
  return code === 0x7f ? '⟨DEL⟩' : `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`
}

/** Return the text on one line. */
export const line = (text: string) => visible(text.replace(/\s*[\r\n]+\s*/g, ' ⏎ '))

const NUMBER = new Intl.NumberFormat('en')
export const count = (value: number) => NUMBER.format(value)
export const plural = (value: number, one: string, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`

const UNITS: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']]

/** Return a length of time with at most two units: `2d 4h`, `12m`, `0.4s`. */
export function span(seconds: number): string {
  if (seconds < 0) return `−${span(-seconds)}`
  if (seconds < 1) return seconds < 0.001 ? '0s' : `${Math.round(seconds * 1000)}ms`
  if (seconds < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)}s`
  let left = Math.round(seconds)
  const parts: string[] = []
  for (const [size, unit] of UNITS) {
    const whole = Math.floor(left / size)
    if (whole || parts.length) {
      if (whole) parts.push(`${whole}${unit}`)
      left -= whole * size
      if (parts.length === 2 || size === (parts[0]?.endsWith('d') ? 3600 : parts[0]?.endsWith('h') ? 60 : 1)) break
    }
  }
  return parts.join(' ') || '0s'
}

export const secondsOf = (time: string) => Date.parse(time) / 1000

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' })
const DAY = new Intl.DateTimeFormat('en', { weekday: 'short', day: 'numeric', month: 'short' })
const SAME = new Intl.DateTimeFormat('en', { dateStyle: 'short' })

/** Return the local time of day, with the day unless it is today. */
export function clock(time: string, now: number, millis = false): string {
  const at = new Date(time)
  const text = CLOCK.format(at) + (millis ? `.${String(at.getMilliseconds()).padStart(3, '0')}` : '')
  return SAME.format(at) === SAME.format(now * 1000) ? text : `${DAY.format(at)}, ${text.slice(0, 5)}`
}

/** Return both times for hovering: local with its zone, and UTC. */
export const exact = (time: string) => `${new Date(time).toLocaleString()} (here)\n${time} (UTC)`

/** Return the argument as a shell reads it whole. */
export function quoted(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text
  // eslint-disable-next-line no-control-regex
  return /[\u0000-\u001f\u007f]/.test(text) ? `$'${text.replace(/[\\']/g, '\\$&').replace(/[\u0000-\u001f\u007f]/g, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, '0')}`)}'` : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Return a line for the shell; parts that are undefined are left out. */
export const command = (...parts: (string | undefined | false)[]) =>
  ['interlock', ...parts.filter((part) => part !== undefined && part !== false && part !== '')].map((part) => quoted(String(part))).join(' ')

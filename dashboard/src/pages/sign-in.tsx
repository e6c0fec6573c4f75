// Signing in: a token becomes a session of this browser. The page never keeps the token.
import * as op from '../operations'
import { useState } from 'preact/hooks'
import { ask } from '../api'
import { Trouble } from '../bits'
import { keep, me, signedOut } from '../me'
import { visible } from '../text'

export function SignIn() {
  const [token, set] = useState('')
  const [problem, setProblem] = useState<unknown>(null)
  const submit = async (event: Event) => {
    event.preventDefault()
    try {
      keep(null)
      keep((await ask(op.sign_in, { body: { token } })).secret)
      location.reload()
    } catch (error) {
      setProblem(error)
    }
  }
  return (
    <form class="sign-in" onSubmit={submit}>
      <h1>Sign in</h1>
      <p class="faint">{visible(signedOut.value)}</p>
      <input type="text" autocomplete="username" value="interlock" readOnly hidden />
      <label>
        <span>Token</span>
        <input type="password" autocomplete="current-password" value={token} onInput={(event) => set(event.currentTarget.value)} />
      </label>
      <button type="submit" class="main">
        Sign in
      </button>
      {problem !== null && <Trouble problem={problem} />}
    </form>
  )
}

export function SignedIn() {
  const known = me.value
  if (!known || known.until === null) return known && known.name !== 'local' ? <span class="faint">{visible(known.name)}</span> : null
  const leave = () => {
    keep(null)
    location.reload()
  }
  return (
    <span class="who" title={`tenant ${known.tenant}`}>
      {visible(known.name)} <span class="faint">({known.role})</span>{' '}
      <button type="button" class="quiet" onClick={leave}>
        Sign out
      </button>
    </span>
  )
}

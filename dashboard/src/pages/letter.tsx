// A dead letter: what was given up and why; replay it, with other arguments if need be, or drop it.
import * as op from '../operations'
import { Action, type Act, type Values } from '../action'
import { ask } from '../api'
import { Ago, JobLink, Linked, RunLink, Section, Shown, Text } from '../bits'
import { useRead } from '../live'
import { go, Link, to } from '../route'
import { command } from '../text'
import { Long, Tree, written } from '../tree'
import type { Json, LetterDetail, LetterInfo } from '../types'

/** Only the arguments that differ are sent: others, and secrets among them, keep their values. */
function changesOf(run: LetterDetail['run'] | undefined, values: Values): Record<string, Json> | undefined {
  if (!run || values.payload === undefined) return undefined
  const before = run.payload as Record<string, Json>
  const changed = Object.entries(JSON.parse(values.payload) as Record<string, Json>).filter(([name, value]) => written(value, 2) !== written(before[name], 2))
  return changed.length ? Object.fromEntries(changed) : undefined
}

export const replay = (letter: Pick<LetterInfo, 'id' | 'job_id'>, done: () => void, run?: LetterDetail['run']): Act => ({
  operation: op.replay,
  title: 'Replay the dead letter',
  says: (
    <>
      A new run of <b><Text>{letter.job_id}</Text></b> is created{run ? ' with these arguments' : ' with the same arguments'}. It passes the policy like any other.
    </>
  ),
  button: 'Replay',
  fields: [...(run ? [{ name: 'payload', label: 'Arguments', kind: 'json' as const, value: written(run.payload, 2) }] : []), { name: 'reason', label: 'Reason' }],
  command: (values) => {
    const changed = changesOf(run, values)
    return command('dlq', changed ? 'edit' : 'replay', letter.id, ...(changed ? ['--payload', JSON.stringify(changed)] : []), ...(values.reason ? ['--reason', values.reason] : []))
  },
  run: async (values, key) => {
    const found = await ask(op.replay, { path: { letter_id: letter.id }, body: { reason: values.reason ?? '', payload: changesOf(run, values) }, key })
    return { text: 'A new run was created.', to: to('runs', found.id) }
  },
  done,
})

const drop = (letter: LetterDetail): Act => ({
  operation: op.drop_letter,
  title: 'Drop the dead letter',
  says: 'It is gone for good. Its run and its history stay.',
  button: 'Drop',
  bad: true,
  command: () => command('dlq', 'drop', letter.id),
  run: async () => {
    await ask(op.drop_letter, { path: { letter_id: letter.id } })
    go('dead-letters')
    return 'The letter is dropped.'
  },
})

export function Letter({ id }: { id: string }) {
  const reading = useRead(`letter ${id}`, () => ask(op.letter, { path: { letter_id: id } }), ['run'])
  return (
    <Shown of={reading}>
      {(letter) => (
        <>
          <div class="title">
            <h1>{letter.job_id ? <JobLink id={letter.job_id} /> : 'A message that cannot be read'}</h1>
            <p class="under">
              dead since <Ago at={letter.at} /> · {letter.code.replaceAll('_', ' ')}
              {letter.run_id && <> · run <RunLink id={letter.run_id} whole /></>}
              {letter.replayed_as && <> · replayed as <RunLink id={letter.replayed_as} /></>}
            </p>
            <span class="grow" />
            <div class="acts">
              {letter.run && <Action act={replay(letter, reading.again, letter.run)} label="Replay…" />}
              <Action act={drop(letter)} label="Drop…" />
            </div>
          </div>
          <section class="why bad" aria-label="Why it was given up">
            <Long text={letter.error} />
          </section>
          {letter.run && (
            <Section title="Arguments" id="payload">
              <Tree name="" value={letter.run.payload} />
            </Section>
          )}
          {letter.history.length > 0 && (
            <p class="faint">
              Last: <Linked>{letter.history.at(-1)!.reason}</Linked>. {letter.run_id && <Link to={`${to('runs', letter.run_id)}?tab=events`}>Every transition</Link>}
            </p>
          )}
        </>
      )}
    </Shown>
  )
}

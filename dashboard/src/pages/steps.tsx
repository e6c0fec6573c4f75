// The steps of a workflow run as a tree: those that have begun, and those to come.
import * as op from '../operations'
import { ask } from '../api'
import { Ago, JobLink, RunLink, Shown, Text, Took } from '../bits'
import { useRead } from '../live'
import { to } from '../route'
import { StateMark } from '../state'
import { Table } from '../table'
import type { RunDetail, RunInfo, StepGraph } from '../types'
import { whatOf } from './runs'

interface Step {
  name: string
  deep: number
  run: RunInfo | null
}

/** The name of a step is what its id has beyond that of its workflow. */
const nameOf = (run: RunInfo, parent: string) => (run.id.startsWith(parent) ? run.id.slice(parent.length).replace(/^[/:]/, '') : run.id)

export function stepsOf(runs: RunInfo[], graph: StepGraph | null, parent: string): Step[] {
  const byName = new Map(runs.map((run) => [nameOf(run, parent), run]))
  if (!graph) return [...byName].map(([name, run]) => ({ name, run, deep: 0 }))
  const before = { ...graph.needs, ...graph.on_error }
  const inside = new Set(Object.values(graph.inside).flat())
  const names = [...new Set([...Object.keys(before), ...Object.values(before).flat(), ...Object.keys(graph.inside), ...inside, ...byName.keys()])]
  const deepOf = (name: string, seen: string[] = []): number => (seen.includes(name) ? 0 : Math.max(0, ...(before[name] ?? []).map((one) => 1 + deepOf(one, [...seen, name]))))
  const steps = names.map((name) => ({ name, run: byName.get(name) ?? null, deep: deepOf(name) + (inside.has(name) ? 1 : 0) }))
  return steps.sort((a, b) => a.deep - b.deep)
}

export function Steps({ run }: { run: RunDetail }) {
  const reading = useRead(`steps ${run.id}`, () => ask(op.steps, { path: { run_id: run.id }, query: { limit: 1000 } }), ['run'], () => true, run.ended_at ? 0 : 2000)
  return (
    <Shown of={reading}>
      {(page) => (
        <Table
          name="Steps"
          items={stepsOf(page.steps, page.graph, run.id)}
          id={(step) => step.name}
          open={(step) => (step.run ? to('runs', step.run.id) : null)}
          empty="No step has begun."
          columns={[
            { title: 'State', cell: (step) => (step.run ? <StateMark state={step.run.state} /> : <span class="faint">to come</span>) },
            { title: 'Step', cell: (step) => <span style={{ paddingLeft: `${Math.min(step.deep, 12) * 16}px` }}><Text>{step.name}</Text></span> },
            { title: 'Job', spare: 2, cell: (step) => step.run && <JobLink id={step.run.job_id} /> },
            { title: 'Run', spare: 1, mono: true, cell: (step) => step.run && <RunLink id={step.run.id} /> },
            { title: 'Began', right: true, spare: 3, cell: (step) => step.run && <Ago at={step.run.started_at} /> },
            { title: 'Took', right: true, cell: (step) => step.run && <Took from={step.run.started_at} until={step.run.ended_at} /> },
            { title: 'What', wide: true, cell: (step) => step.run && <Text>{whatOf(step.run)}</Text> },
          ]}
        />
      )}
    </Shown>
  )
}

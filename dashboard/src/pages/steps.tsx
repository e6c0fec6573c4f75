// The steps of a workflow run as a tree: those that have begun, and those to come.
import { useEffect, useState } from 'preact/hooks'
import * as op from '../operations'
import { ask } from '../api'
import { Ago, Bones, JobLink, RunLink, Shown, Text, Took } from '../bits'
import { useRead } from '../live'
import { here, Link, to } from '../route'
import { StateMark } from '../state'
import { Table } from '../table'
import type { RunDetail, RunInfo, StepGraph } from '../types'
import { whatOf } from './runs'

export interface Step {
  name: string
  deep: number
  after: string[]
  run: RunInfo | null
}

/** The id of a step is that of its workflow, `@` and its name. */
const nameOf = (run: RunInfo, parent: string) => (run.id.startsWith(`${parent}@`) ? run.id.slice(parent.length + 1) : run.id)

/** Steps that have begun, and those to come, in the order in which they may run. */
export function stepsOf(runs: RunInfo[], graph: StepGraph | null, parent: string): Step[] {
  const byName = new Map(runs.map((run) => [nameOf(run, parent), run]))
  if (!graph) return [...byName].map(([name, run]) => ({ name, run, deep: 0, after: [] }))
  const around = Object.fromEntries(Object.entries(graph.inside).flatMap(([name, steps]) => steps.map((step) => [step, name])))
  const afterOf = (name: string) => {
    const before = [...(graph.needs[name] ?? []), ...(graph.on_error[name] ?? [])]
    return before.length || !around[name] ? before : [around[name]]
  }
  const names = [...new Set([...Object.keys(graph.needs), ...Object.keys(graph.on_error), ...Object.keys(around), ...byName.keys()])]
  const deepOf = (name: string, seen: string[] = []): number => (seen.includes(name) ? 0 : Math.max(0, ...afterOf(name).map((one) => 1 + deepOf(one, [...seen, name]))))
  return names.map((name) => ({ name, run: byName.get(name) ?? null, deep: deepOf(name), after: afterOf(name).filter((one) => names.includes(one)) })).sort((a, b) => a.deep - b.deep)
}

type Drawn = typeof import('../graph')

export function Steps({ run }: { run: RunDetail }) {
  const view = here.value.query.get('view')
  const reading = useRead(`steps ${run.id}`, () => ask(op.steps, { path: { run_id: run.id }, query: { limit: 1000 } }), ['run'], () => true, run.ended_at ? 0 : 2000)
  return (
    <Shown of={reading}>
      {(page) => {
        const steps = stepsOf(page.steps, page.graph, run.id)
        const hasGraph = page.graph !== null && steps.length > 1 && steps.length <= MOST
        const asGraph = hasGraph && view !== 'list'
        return (
          <>
            {hasGraph && (
              <nav class="views" aria-label="Views of the steps">
                <Link to={`${to('runs', run.id)}?tab=steps`} current={asGraph}>Graph</Link>
                <Link to={`${to('runs', run.id)}?tab=steps&view=list`} current={!asGraph}>List</Link>
              </nav>
            )}
            {asGraph ? <Lazy steps={steps} /> : <List steps={steps} />}
          </>
        )
      }}
    </Shown>
  )
}

const MOST = 200 // boxes of a graph; more are a list
let loaded: Drawn | null = null

function Lazy({ steps }: { steps: Step[] }) {
  const [drawn, set] = useState(loaded)
  useEffect(() => {
    if (!loaded) void import('../graph').then((found) => set((loaded = found)))
  }, [])
  return drawn ? <drawn.default steps={steps} /> : <Bones rows={3} />
}

function List({ steps }: { steps: Step[] }) {
  return (
        <Table
          name="Steps"
          items={steps}
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
  )
}

// The graph of a workflow run, laid out by dagre. This file is loaded when a graph is drawn.
import { graphlib, layout } from '@dagrejs/dagre'
import { go, to } from './route'
import type { Step } from './pages/steps'
import { familyOf, StateIcon, wordOf } from './state'
import { secondsOf, span, visible } from './text'

const WIDTH = 168
const HEIGHT = 44
export default function Graph({ steps }: { steps: Step[] }) {
  const graph = new graphlib.Graph()
  graph.setGraph({ rankdir: 'LR', nodesep: 16, ranksep: 40, marginx: 8, marginy: 8 })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const step of steps) graph.setNode(step.name, { width: WIDTH, height: HEIGHT })
  for (const step of steps) for (const before of step.after) graph.setEdge(before, step.name)
  layout(graph)
  const { width = 0, height = 0 } = graph.graph()
  return (
    <div class="graph" tabIndex={0} role="group" aria-label="Graph of the workflow">
      <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height}>
        {graph.edges().map((edge) => {
          const points: { x: number; y: number }[] = graph.edge(edge).points ?? []
          const step = steps.find((one) => one.name === edge.w)
          return <path key={`${edge.v} ${edge.w}`} class={step?.run ? 'edge' : 'edge to-come'} d={points.map((point, place) => `${place ? 'L' : 'M'}${point.x} ${point.y}`).join('')} />
        })}
        {steps.map((step) => (
          <Box key={step.name} step={step} x={graph.node(step.name).x! - WIDTH / 2} y={graph.node(step.name).y! - HEIGHT / 2} />
        ))}
      </svg>
    </div>
  )
}

function Box({ step, x, y }: { step: Step; x: number; y: number }) {
  const { run } = step
  const group = run?.facets.step
  const took = run?.started_at && run.ended_at ? span(secondsOf(run.ended_at) - secondsOf(run.started_at)) : ''
  const note = group?.items ? `${group.completed ?? 0} of ${group.items} done` : [run ? wordOf(run.state) : 'to come', took].filter(Boolean).join(' · ')
  return (
    <g
      class={`box ${run ? familyOf(run.state) : 'to-come'}`}
      transform={`translate(${x} ${y})`}
      tabIndex={run ? 0 : undefined}
      role={run ? 'link' : undefined}
      aria-label={`${step.name}: ${note}`}
      onClick={() => run && go(to('runs', run.id))}
      onKeyDown={(event) => event.key === 'Enter' && run && go(to('runs', run.id))}
    >
      <title>{visible(step.name)}</title>
      <rect width={WIDTH} height={HEIGHT} rx="6" />
      {run && <StateIcon state={run.state} />}
      <text x={run ? 32 : 12} y="18">
        {visible(step.name.length > 17 ? `${step.name.slice(0, 16)}…` : step.name)}
        {group?.undo ? ' ⤺' : ''}
      </text>
      <text x={run ? 32 : 12} y="35" class="note">
        {note}
      </text>
    </g>
  )
}

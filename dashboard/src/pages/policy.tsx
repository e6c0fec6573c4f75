// Policy: the rules in force, top down, and how often each has decided.
import * as op from '../operations'
import { ask } from '../api'
import { Count, Empty, Section, Shown, Text } from '../bits'
import { useRead } from '../live'
import { Link } from '../route'
import { wordOf } from '../state'
import { Table, type Column } from '../table'
import { written } from '../tree'
import type { RuleInfo } from '../types'

const COLUMNS: Column<RuleInfo & { place: number }>[] = [
  { title: 'Place', right: true, spare: 2, cell: (rule) => rule.place || null },
  { title: 'Rule', cell: (rule) => <Text>{rule.id}</Text> },
  { title: 'Decision', cell: (rule) => wordOf(rule.decision) },
  { title: 'Verdicts', right: true, cell: (rule) => <Count>{Object.values(rule.verdicts).reduce((sum, one) => sum + one, 0)}</Count> },
  { title: 'Matches', spare: 1, cell: (rule) => <Text>{Object.entries(rule.match).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(', ') : written(value)}`).join('; ')}</Text> },
  { title: 'When', spare: 1, mono: true, cell: (rule) => rule.when && <Text>{rule.when}</Text> },
  { title: 'Reason', wide: true, cell: (rule) => <Text>{rule.reason}</Text> },
]

export function Policy() {
  const reading = useRead('policy', () => ask(op.policy), [], () => true, 5000)
  return (
    <>
      <div class="title">
        <h1>Policy</h1>
      </div>
      <Shown of={reading}>
        {(found) => {
          if (found.remote) return <Empty>A policy service judges runs; the rules are there.</Empty>
          if (found.digest === null) return <Empty>No policy is in force: every run is allowed. <Link to="audit">Audit</Link></Empty>
          const rest: RuleInfo = { id: 'no rule matches', decision: found.default_decision ?? 'deny', reason: '', match: {}, when: null, verdicts: found.default_verdicts }
          return (
            <Section
              title="Rules, the first that matches decides"
              id="rules"
              side={
                <span class="faint">
                  <Text>{found.id}</Text> <span class="mono">{found.digest.slice(0, 8)}</span> · verdicts since the scheduler started
                </span>
              }
            >
              <Table name="Rules" columns={COLUMNS} items={[...found.rules, rest].map((rule, place) => ({ ...rule, place: place < found.rules.length ? place + 1 : 0 }))} id={(rule) => `${rule.place} ${rule.id}`} empty="The policy has no rules." />
            </Section>
          )
        }}
      </Shown>
    </>
  )
}

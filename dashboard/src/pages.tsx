// The pages by path, in the order of the navigation.
import type { ComponentChildren, FunctionComponent } from 'preact'
import { Empty } from './bits'
import { Link } from './route'
import { Approval, Approvals } from './pages/approvals'
import { Job, Jobs } from './pages/jobs'
import { Letter } from './pages/letter'
import { Now } from './pages/now'
import { Policy } from './pages/policy'
import { Run } from './pages/run'
import { Runs } from './pages/runs'
import { Service } from './pages/service'
import { Audit, Cluster, DeadLetters, Deliveries, Lanes, Services, Session, Sessions, Workers, Workflows } from './pages/shelves'
import { Timetable } from './pages/timetable'

export interface Page {
  path: string
  title: string
  first?: boolean
  list: FunctionComponent
  item?: FunctionComponent<{ id: string }>
}

export const PAGES: Page[] = [
  { path: '', title: 'Now', first: true, list: Now },
  { path: 'runs', title: 'Runs', first: true, list: Runs, item: Run },
  { path: 'jobs', title: 'Jobs', first: true, list: Jobs, item: Job },
  { path: 'timetable', title: 'Timetable', first: true, list: Timetable },
  { path: 'approvals', title: 'Approvals', first: true, list: Approvals, item: Approval },
  { path: 'dead-letters', title: 'Dead letters', first: true, list: DeadLetters, item: Letter },
  { path: 'workers', title: 'Workers', first: true, list: Workers },
  { path: 'workflows', title: 'Workflows', list: Workflows },
  { path: 'lanes', title: 'Lanes', list: Lanes },
  { path: 'sessions', title: 'Sessions', list: Sessions, item: Session },
  { path: 'services', title: 'Services', list: Services, item: Service },
  { path: 'deliveries', title: 'Deliveries', list: Deliveries },
  { path: 'policy', title: 'Policy', list: Policy },
  { path: 'audit', title: 'Audit', list: Audit },
  { path: 'cluster', title: 'Cluster', list: Cluster },
]

export function pageOf([path = '', id]: string[]): [Page | undefined, ComponentChildren] {
  const page = PAGES.find((one) => one.path === path)
  const { list: List, item: Item } = page ?? { list: Unknown }
  if (page && id !== undefined) return Item ? [page, <Item key={`${path}/${id}`} id={id} />] : [undefined, <Unknown />]
  return [page, <List key={path} />]
}

function Unknown() {
  return (
    <>
      <h1>Not found</h1>
      <Empty>
        This address leads nowhere. <Link to="./">What happens now</Link>
      </Empty>
    </>
  )
}

// The pages by path, in the order of the navigation.
import type { ComponentChildren, FunctionComponent } from 'preact'
import { Empty } from './bits'
import { Link } from './route'
import { Now } from './pages/now'
import { Run } from './pages/run'
import { Runs } from './pages/runs'

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
]

export function pageOf([path = '', id]: string[]): [Page | undefined, ComponentChildren] {
  const page = PAGES.find((one) => one.path === path)
  const { list: List, item: Item } = page ?? { list: Unknown }
  if (page && id !== undefined) return Item ? [page, <Item key={`${path}/${id}`} id={id} />] : [undefined, <Unknown />]
  return [page, <List key={path} />]
}

function Unknown() {
  return (
    <Empty>
      This address leads nowhere. <Link to="./">What happens now</Link>
    </Empty>
  )
}

import type { StreamState } from '../../api/stream'
import { Panel } from '../page/Page'
import { LiveMark } from '../state/LiveMark'
import { DataTable, type DataTableProps } from './DataTable'

interface LiveTableProps<T> extends Omit<DataTableProps<T>, 'rows' | 'label'> {
  title: string
  stream: StreamState<T>
}

/** A table that a stream updates, with a mark that tells whether it is up to date. */
export function LiveTable<T>({ title, stream, ...table }: LiveTableProps<T>) {
  return (
    <Panel title={title} aside={<LiveMark {...stream} />} flush>
      <DataTable {...table} label={title} rows={stream.items} />
    </Panel>
  )
}

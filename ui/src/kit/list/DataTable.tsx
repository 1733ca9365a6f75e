// biome-ignore-all lint/a11y/useSemanticElements: rows of a grid with table roles, see DataTable.
// biome-ignore-all lint/a11y/useFocusableInteractive: the links and buttons in a row take the focus, not the row.
import { useInViewport } from '@mantine/hooks'
import { Link } from '@tanstack/react-router'
import { defaultRangeExtractor, type Range, useVirtualizer } from '@tanstack/react-virtual'
import {
  type ComponentType,
  type CSSProperties,
  type KeyboardEvent,
  memo,
  type ReactElement,
  type ReactNode,
  type Ref,
  useEffect,
  useRef,
} from 'react'
import { useTranslation } from 'react-i18next'
import classes from './DataTable.module.css'

export interface Column<T> {
  key: string
  /** Empty where the cells are what can be done with a row. */
  header: string
  /** What the header shows, where it is more than its text. */
  head?: ReactNode
  cell: (row: T) => ReactNode
  /** A CSS grid track; all columns share the width equally by default. */
  width?: string
  align?: 'right'
  /** The cell that names the row and carries its link; the first one by default. */
  main?: boolean
  /** What to sort by; a column without it cannot be sorted. */
  sortBy?: (row: T) => string | number | boolean | null | undefined
}

export interface DataTableProps<T> {
  label: string
  columns: Column<T>[]
  rows: readonly T[]
  rowKey: (row: T) => string
  /** The address of a row: its main cell becomes a link that covers the row. */
  rowLink?: (row: T) => string | undefined
  /** The row's address is another page: the search of this list stays behind. */
  leaves?: boolean
  sort?: string
  onSort?: (key: string) => void
  /** What moves rows: it wraps each row and puts a handle before it. See SortableTable. */
  shell?: ComponentType<RowShellProps>
  shellHeader?: string
  shellName?: (row: T) => string
  /** A row that stays although it is out of sight, because it is being moved. */
  keep?: number
  /** Called while the end of the rows is in sight, for lists that are longer than what was loaded. */
  onEnd?: () => void
}

export interface RowShellProps {
  id: string
  name: string
  children: (parts: RowParts) => ReactElement
}

interface RowParts {
  ref: Ref<HTMLDivElement>
  style: CSSProperties | undefined
  dragging: boolean
  handle: ReactNode
}

/** With more rows than this, only those in sight are drawn. */
export const virtualFrom = 100

/**
 * The one table. A grid of rows with table roles, because a real <table> can neither be virtualised nor
 * become cards on a phone without losing its meaning for screen readers.
 */
export function DataTable<T>(props: DataTableProps<T>) {
  const { label, columns, rows, sort, onSort } = props
  const { t } = useTranslation()
  const widths = columns.map((column) => column.width ?? 'minmax(0, 1fr)')
  const tracks = { '--tracks': [...(props.shell ? ['20px'] : []), ...widths].join(' ') } as CSSProperties
  return (
    <div role="table" aria-label={label} aria-rowcount={rows.length + 1} className={classes.table} style={tracks}>
      <div role="row" aria-rowindex={1} className={classes.head}>
        {props.shell && (
          <div role="columnheader">
            <span className="visually-hidden">{props.shellHeader}</span>
          </div>
        )}
        {columns.map((column) => {
          const direction = sort === column.key ? 'ascending' : sort === `-${column.key}` ? 'descending' : undefined
          return (
            <div role="columnheader" key={column.key} aria-sort={direction} data-align={column.align}>
              {column.sortBy && onSort ? (
                <button
                  type="button"
                  onClick={() => onSort(column.key)}
                  title={t('list.sortBy', { column: column.header })}
                >
                  {column.header}
                  <span aria-hidden>{direction === 'ascending' ? ' ↑' : direction === 'descending' ? ' ↓' : ''}</span>
                </button>
              ) : (
                (column.head ?? (column.header || <span className="visually-hidden">{t('list.actions')}</span>))
              )}
            </div>
          )
        })}
      </div>
      {rows.length > virtualFrom ? <VirtualRows {...props} /> : <PlainRows {...props} />}
    </div>
  )
}

function PlainRows<T>(props: DataTableProps<T>) {
  return (
    <div role="rowgroup" onKeyDown={moveBetweenRows}>
      {props.rows.map((row, index) => (
        <Row key={props.rowKey(row)} row={row} index={index} {...props} />
      ))}
      {props.onEnd && <ListEnd onSeen={props.onEnd} />}
    </div>
  )
}

/** The end of a list. What is loaded may add no row, so it asks again with each drawing while it is in sight. */
export function ListEnd({ onSeen }: { onSeen: () => void }) {
  const { ref, inViewport } = useInViewport()
  useEffect(() => {
    if (inViewport) onSeen()
  })
  return <div ref={ref} role="presentation" className={classes.end} />
}

function VirtualRows<T>(props: DataTableProps<T>) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtualizer = useVirtualizer({
    count: props.rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 37,
    overscan: 8,
    rangeExtractor: (range) => withKept(range, props.keep),
  })
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard.
    <div ref={scroller} role="rowgroup" className={classes.scroller} tabIndex={0} onKeyDown={moveBetweenRows}>
      <div role="presentation" style={{ height: virtualizer.getTotalSize(), position: 'relative' }}>
        {virtualizer.getVirtualItems().map((item) => {
          const row = props.rows[item.index] as T
          return (
            <div
              key={props.rowKey(row)}
              role="presentation"
              data-index={item.index}
              ref={virtualizer.measureElement}
              className={classes.virtual}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <Row row={row} index={item.index} {...props} />
            </div>
          )
        })}
      </div>
      {props.onEnd && <ListEnd onSeen={props.onEnd} />}
    </div>
  )
}

function withKept(range: Range, keep: number | undefined): number[] {
  const shown = defaultRangeExtractor(range)
  if (keep === undefined || shown.includes(keep)) return shown
  return [...shown, keep].sort((a, b) => a - b)
}

type RowProps<T> = { row: T; index: number } & DataTableProps<T>

function Row<T>(props: RowProps<T>) {
  const { shell: Shell, shellName, row, rowKey } = props
  if (!Shell) return <RowBody {...props} />
  return (
    <Shell id={rowKey(row)} name={shellName?.(row) ?? ''}>
      {(parts) => <RowBody {...props} parts={parts} />}
    </Shell>
  )
}

function RowBody<T>({ row, index, columns, rowLink, leaves, parts }: RowProps<T> & { parts?: RowParts }) {
  return (
    <div
      ref={parts?.ref}
      role="row"
      aria-rowindex={index + 2}
      className={classes.row}
      style={parts?.style}
      data-dragging={parts?.dragging || undefined}
    >
      {parts && (
        <div role="cell" className={classes.handleCell}>
          {parts.handle}
        </div>
      )}
      <Cells row={row} columns={columns} rowLink={rowLink} leaves={leaves} />
    </div>
  )
}

type CellsProps<T> = Pick<RowProps<T>, 'row' | 'columns' | 'rowLink' | 'leaves'>

/** The cells of a row are drawn again when the row changes, not when the table scrolls or another row moves. */
const Cells = memo(function Cells<T>({ row, columns, rowLink, leaves }: CellsProps<T>) {
  const main = columns.find((column) => column.main) ?? columns[0]
  const link = rowLink?.(row)
  return columns.map((column) => (
    <div
      role="cell"
      key={column.key}
      data-label={column.header}
      data-align={column.align}
      data-main={column === main || undefined}
    >
      {column === main && link ? (
        <Link to={link} search={leaves ? undefined : true} className={classes.link} data-row-link>
          {column.cell(row)}
        </Link>
      ) : (
        column.cell(row)
      )}
    </div>
  ))
}) as <T>(props: CellsProps<T>) => ReactNode

function moveBetweenRows(event: KeyboardEvent<HTMLElement>) {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
  if (!(document.activeElement as HTMLElement).matches('[data-row-link]')) return
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-row-link]')]
  const next = links[links.indexOf(document.activeElement as HTMLElement) + (event.key === 'ArrowDown' ? 1 : -1)]
  if (!next) return
  event.preventDefault()
  next.focus()
}

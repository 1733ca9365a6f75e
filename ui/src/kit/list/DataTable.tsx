// biome-ignore-all lint/a11y/useSemanticElements: rows of a grid with table roles, see DataTable.
// biome-ignore-all lint/a11y/useFocusableInteractive: the links and buttons in a row take the focus, not the row.
import { useInViewport } from '@mantine/hooks'
import { IconGripVertical } from '@tabler/icons-react'
import { useRouter } from '@tanstack/react-router'
import { defaultRangeExtractor, type Range, useVirtualizer } from '@tanstack/react-virtual'
import { type CSSProperties, type KeyboardEvent, type MouseEvent, memo, type ReactNode, useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './DataTable.module.css'

export interface Column<T> {
  key: string
  /** Empty if the cells hold actions. */
  header: string
  /** A header with more than text. */
  head?: ReactNode
  cell: (row: T) => ReactNode
  /** A CSS grid track. By default all columns have the same width. */
  width?: string
  align?: 'right'
  /** The cell that names the row and has its link; by default the first one. */
  main?: boolean
  /** The value to sort by. Without it the column cannot be sorted. */
  sortBy?: (row: T) => string | number | boolean | null | undefined
}

export interface DataTableProps<T> {
  label: string
  columns: Column<T>[]
  rows: readonly T[]
  rowKey: (row: T) => string
  /** The path of a row. Its main cell becomes a link that covers the row. */
  rowLink?: (row: T) => string | undefined
  /** The path is another page, so the link drops this list's search parameters. */
  leaves?: boolean
  sort?: string
  onSort?: (key: string) => void
  /** For rows that can be moved by handles. See SortableTable. */
  order?: RowOrder<T>
  /** Called while the end of the rows is visible, to load more. */
  onEnd?: () => void
}

export interface RowOrder<T> {
  header: string
  /** The label of a row's handle. */
  label: (row: T) => string
  /** The id of the element that explains how to move rows. */
  how: string
  off?: boolean
  /** The row being moved, which stays in the DOM even when out of sight. */
  held?: number
  /** The index of the row before which it would go; the number of rows for the end. */
  gap?: number
}

/** With more rows than this, only the visible ones are drawn. */
export const virtualFrom = 100

/**
 * The only table component. It is a grid with table roles, because a real <table> cannot be virtualised, nor become
 * cards on a phone, without losing its meaning for screen readers.
 */
export function DataTable<T>(props: DataTableProps<T>) {
  const { label, columns, rows, sort, onSort, order } = props
  const { t } = useTranslation()
  const links = useRowLinks(props)
  const widths = columns.map((column) => column.width ?? 'minmax(0, 1fr)')
  const tracks = { '--tracks': [...(order ? ['20px'] : []), ...widths].join(' ') } as CSSProperties
  return (
    <div
      role="table"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      className={classes.table}
      data-menu={columns.some(({ header }) => header === '') || undefined}
      data-order={order ? true : undefined}
      style={tracks}
      {...links}
    >
      <div role="row" aria-rowindex={1} className={classes.head}>
        {order && (
          <div role="columnheader">
            <span className="visually-hidden">{order.header}</span>
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

/**
 * Handles the links of all rows in one place: a router link costs a row more than all its cells. The target's code is
 * loaded when the pointer comes near.
 */
function useRowLinks<T>({ rows, rowLink, leaves }: DataTableProps<T>) {
  const router = useRouter({ warn: false })
  const loaded = useRef(false)
  const onClick = (event: MouseEvent<HTMLElement>) => {
    const { button, metaKey, ctrlKey, shiftKey, altKey } = event
    const to = (event.target as Element).closest('[data-row-link]')?.getAttribute('href')
    if (!to || event.defaultPrevented || button !== 0 || metaKey || ctrlKey || shiftKey || altKey) return
    event.preventDefault()
    void router.navigate({ to, search: leaves ? undefined : true } as never)
  }
  const onPointerEnter = () => {
    const to = rows[0] && rowLink?.(rows[0])
    if (!to || loaded.current) return
    loaded.current = true
    void router.preloadRoute({ to } as never)
  }
  return rowLink ? { onClick, onPointerEnter } : {}
}

function PlainRows<T>(props: DataTableProps<T>) {
  return (
    <div role="rowgroup" onKeyDown={moveBetweenRows}>
      {props.rows.map((row, index) => (
        <Row key={props.rowKey(row)} {...partOf(props, row, index)} />
      ))}
      {props.onEnd && <ListEnd onSeen={props.onEnd} />}
    </div>
  )
}

/** The end of a list. Loading a page may add no rows, so it asks again on every render while visible. */
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
    rangeExtractor: (range) => withKept(range, props.order?.held),
  })
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard.
    <div ref={scroller} role="rowgroup" className={classes.scroller} tabIndex={0} onKeyDown={moveBetweenRows}>
      <div role="presentation" style={{ height: virtualizer.getTotalSize(), position: 'relative' }}>
        {virtualizer.getVirtualItems().map((item) => {
          const row = props.rows[item.index] as T
          return (
            <Row
              key={props.rowKey(row)}
              {...partOf(props, row, item.index)}
              measure={virtualizer.measureElement}
              start={item.start}
            />
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

interface RowProps<T> extends Pick<DataTableProps<T>, 'columns' | 'rowLink'> {
  row: T
  index: number
  last: boolean
  /** The label of its handle. */
  handle?: (row: T) => string
  how?: string
  off?: boolean
  held?: boolean
  /** Whether the dragged row would go before or after it. */
  drop?: 'before' | 'after'
  measure?: (element: HTMLElement | null) => void
  /** Its offset, if only the visible rows are drawn. */
  start?: number
}

/** The props of a row. They do not change while the table scrolls. */
function partOf<T>({ rows, columns, rowLink, order }: DataTableProps<T>, row: T, index: number): RowProps<T> {
  const { held, gap } = order ?? {}
  const behind = gap === rows.length && index === rows.length - 1
  return {
    row,
    index,
    last: index === rows.length - 1,
    columns,
    rowLink,
    handle: order?.label,
    how: order?.how,
    off: order?.off,
    held: held === index,
    drop: gap === index ? 'before' : behind ? 'after' : undefined,
  }
}

/** A row is drawn again if it changes, not if the table scrolls or another row moves. */
const Row = memo(function Row<T>(props: RowProps<T>) {
  const { row, index, last, columns, rowLink, handle, how, off, held, drop, measure, start } = props
  const main = columns.find((column) => column.main) ?? columns[0]
  const link = rowLink?.(row)
  const label = handle?.(row)
  return (
    <div
      ref={measure}
      role="row"
      aria-rowindex={index + 2}
      data-index={index}
      className={start === undefined ? classes.row : `${classes.row} ${classes.virtual}`}
      style={start === undefined ? undefined : { transform: `translateY(${start}px)` }}
      data-link={link ? true : undefined}
      data-last={last || undefined}
      data-dragging={held || undefined}
      data-drop={drop}
    >
      {label && (
        <div role="cell" className={classes.handleCell}>
          <button
            type="button"
            className={classes.handle}
            disabled={off}
            title={label}
            aria-label={label}
            aria-describedby={how}
            data-handle
          >
            <IconGripVertical size={16} aria-hidden />
          </button>
        </div>
      )}
      {columns.map((column) => (
        <div
          role="cell"
          key={column.key}
          data-label={column.header}
          data-align={column.align}
          data-main={column === main || undefined}
        >
          {column === main && link ? (
            <a href={link} className={classes.link} data-row-link>
              {column.cell(row)}
            </a>
          ) : (
            column.cell(row)
          )}
        </div>
      ))}
    </div>
  )
}) as <T>(props: RowProps<T>) => ReactNode

function moveBetweenRows(event: KeyboardEvent<HTMLElement>) {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
  if (!(document.activeElement as HTMLElement).matches('[data-row-link]')) return
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-row-link]')]
  const next = links[links.indexOf(document.activeElement as HTMLElement) + (event.key === 'ArrowDown' ? 1 : -1)]
  if (!next) return
  event.preventDefault()
  next.focus()
}

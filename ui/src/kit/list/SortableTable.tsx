import { type KeyboardEvent, type PointerEvent, useCallback, useEffect, useId, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { DataTable, type DataTableProps } from './DataTable'
import { gapAt, gapOf, placeIn, scrollNear } from './place'

interface SortableTableProps<T> extends DataTableProps<T> {
  /** Called with the moved row's id and its new index. */
  onPlace: (id: string, place: number) => void
  rowName: (row: T) => string
  /** Rows cannot be moved at the moment. */
  off?: boolean
}

/** The row being moved: its old and new index. */
interface Hold {
  from: number
  to: number
}

/** How far the pointer moves before a press on a handle becomes a drag, in pixels. */
const slack = 4

const handleOf = (target: EventTarget) => (target as Element).closest<HTMLElement>('[data-handle]:enabled')
const rowOf = (element: Element | null | undefined) => element?.closest<HTMLElement>('[role="row"][data-index]')
const indexOf = (row: HTMLElement) => Number(row.dataset.index)

/**
 * A table whose rows are reordered by handles: with the pointer, or with Space and the arrow keys. Rows do not move
 * during a drag; a line shows where the row would go. One listener serves all handles.
 */
export default function SortableTable<T>({ onPlace, rowName, off, ...table }: SortableTableProps<T>) {
  const { t } = useTranslation()
  const how = useId()
  const box = useRef<HTMLDivElement>(null)
  const [hold, setHold] = useState<Hold | null>(null)
  const [said, setSaid] = useState('')
  const { rows, rowKey } = table
  /** The row that was moved by keyboard: its handle gets the focus back. */
  const placed = useRef<string | null>(null)
  const nameAt = (index: number) => rowName(rows[index] as T)

  const lift = (from: number) => {
    setHold({ from, to: from })
    setSaid(t('order.lifted', { name: nameAt(from), place: from + 1 }))
  }
  const carry = (from: number, to: number) => {
    setHold({ from, to })
    setSaid(t('order.over', { name: nameAt(from), place: to + 1, total: rows.length }))
  }
  const drop = ({ from, to }: Hold) => {
    setHold(null)
    setSaid(t('order.dropped', { name: nameAt(from), place: to + 1 }))
    if (to !== from) onPlace(rowKey(rows[from] as T), to)
  }
  const cancel = ({ from }: Hold) => {
    setHold(null)
    setSaid(t('order.cancelled', { name: nameAt(from) }))
  }

  const onPointerDown = (event: PointerEvent) => {
    const handle = handleOf(event.target)
    const row = rowOf(handle)
    if (!handle || !row || event.button !== 0 || hold) return
    const begin = event.clientY
    const x = handle.getBoundingClientRect().left
    const scroller = row.closest<HTMLElement>('[role="rowgroup"]')
    const own = scroller && scroller.scrollHeight > scroller.clientHeight ? scroller : null
    let held: Hold | null = null
    let y = begin
    let frame = 0
    const follow = () => {
      const under = rowOf(document.elementFromPoint(x, y))
      if (!held || !under || !box.current?.contains(under)) return
      const to = placeIn(gapAt(indexOf(under), under.getBoundingClientRect(), y), held.from)
      if (to === held.to) return
      held = { from: held.from, to }
      carry(held.from, to)
    }
    const scroll = () => {
      const { top, bottom } = own?.getBoundingClientRect() ?? { top: 0, bottom: window.innerHeight }
      const step = scrollNear(y, Math.max(top, 0), Math.min(bottom, window.innerHeight))
      if (step !== 0) {
        ;(own ?? window).scrollBy(0, step)
        follow()
      }
      frame = requestAnimationFrame(scroll)
    }
    const end = () => {
      cancelAnimationFrame(frame)
      stop.abort()
    }
    const stop = new AbortController()
    const { signal } = stop
    window.addEventListener(
      'pointermove',
      (move) => {
        y = move.clientY
        if (!held && Math.abs(y - begin) >= slack) {
          held = { from: indexOf(row), to: indexOf(row) }
          lift(held.from)
          frame = requestAnimationFrame(scroll)
        }
        follow()
      },
      { signal },
    )
    window.addEventListener(
      'pointerup',
      () => {
        end()
        if (held) drop(held)
      },
      { signal },
    )
    const giveUp = () => {
      end()
      if (held) cancel(held)
    }
    window.addEventListener('pointercancel', giveUp, { signal })
    window.addEventListener('keydown', ({ key }) => key === 'Escape' && giveUp(), { signal })
  }

  const onKeyDown = (event: KeyboardEvent) => {
    const row = rowOf(handleOf(event.target))
    if (!row) return
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key]
    const presses = event.key === ' ' || event.key === 'Enter'
    if (!(presses || (hold && (step || event.key === 'Escape')))) return
    event.preventDefault()
    event.stopPropagation()
    if (!hold) return lift(indexOf(row))
    if (step) {
      const to = Math.min(Math.max(hold.to + step, 0), rows.length - 1)
      const beside = box.current?.querySelector(`[role="row"][data-index="${to}"]`)
      beside?.scrollIntoView({ block: 'nearest' })
      return carry(hold.from, to)
    }
    if (event.key === 'Escape') return cancel(hold)
    if (hold.to !== hold.from) placed.current = rowKey(rows[hold.from] as T)
    drop(hold)
  }

  // Moving a row removes the focus from its handle.
  useEffect(() => {
    const id = placed.current
    placed.current = null
    if (id === null || document.activeElement !== document.body) return
    const index = rows.findIndex((row) => rowKey(row) === id)
    const handle = box.current?.querySelector<HTMLElement>(`[role="row"][data-index="${index}"] [data-handle]`)
    handle?.focus()
  }, [rows, rowKey])

  const label = useCallback(
    (row: T) => t(off ? 'order.off' : 'order.handle', { name: rowName(row) }),
    [t, off, rowName],
  )
  const order = {
    header: t('order.column'),
    label,
    how,
    off,
    held: hold?.from,
    gap: hold && hold.to !== hold.from ? gapOf(hold.to, hold.from) : undefined,
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the handles in it are buttons.
    <div ref={box} onPointerDown={onPointerDown} onKeyDown={onKeyDown} onBlur={() => hold && cancel(hold)}>
      <DataTable {...table} order={order} />
      <span id={how} className="visually-hidden">
        {t('order.how')}
      </span>
      <span role="status" className="visually-hidden">
        {said}
      </span>
    </div>
  )
}

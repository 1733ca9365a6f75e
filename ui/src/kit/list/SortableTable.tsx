import {
  closestCenter,
  DndContext,
  type DragEndEvent,
  KeyboardSensor,
  PointerSensor,
  useSensor,
  useSensors,
} from '@dnd-kit/core'
import {
  SortableContext,
  sortableKeyboardCoordinates,
  useSortable,
  verticalListSortingStrategy,
} from '@dnd-kit/sortable'
import { IconGripVertical } from '@tabler/icons-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { DataTable, type DataTableProps, type RowShellProps } from './DataTable'
import classes from './DataTable.module.css'

interface SortableTableProps<T> extends DataTableProps<T> {
  /** Told which row has been put at which place, from 0. */
  onPlace: (id: string, place: number) => void
  /** What people call a row. */
  rowName: (row: T) => string
  /** Rows cannot be moved now. */
  off?: boolean
}

const upAndDown = ({ transform }: { transform: { x: number; y: number; scaleX: number; scaleY: number } }) => ({
  ...transform,
  x: 0,
})

/** A table whose rows are put into order by their handles: with the pointer, or with space and the arrow keys. */
export default function SortableTable<T>({ onPlace, rowName, off, ...table }: SortableTableProps<T>) {
  const { t } = useTranslation()
  const [held, setHeld] = useState<number>()
  const ids = table.rows.map(table.rowKey)
  const sensors = useSensors(
    useSensor(PointerSensor, { activationConstraint: { distance: 4 } }),
    useSensor(KeyboardSensor, { coordinateGetter: sortableKeyboardCoordinates }),
  )
  const nameOf = (id: string | number) => {
    const row = table.rows[ids.indexOf(String(id))]
    return row ? rowName(row) : ''
  }
  const placeOf = (id: string | number) => ids.indexOf(String(id)) + 1
  const drop = ({ active, over }: DragEndEvent) => {
    setHeld(undefined)
    if (over && over.id !== active.id) onPlace(String(active.id), placeOf(over.id) - 1)
  }
  return (
    <DndContext
      sensors={sensors}
      collisionDetection={closestCenter}
      modifiers={[upAndDown]}
      onDragStart={({ active }) => setHeld(placeOf(active.id) - 1)}
      onDragCancel={() => setHeld(undefined)}
      onDragEnd={drop}
      accessibility={{
        screenReaderInstructions: { draggable: t('order.how') },
        announcements: {
          onDragStart: ({ active }) => t('order.lifted', { name: nameOf(active.id), place: placeOf(active.id) }),
          onDragOver: ({ active, over }) =>
            over ? t('order.over', { name: nameOf(active.id), place: placeOf(over.id), total: ids.length }) : '',
          onDragEnd: ({ active, over }) =>
            t('order.dropped', { name: nameOf(active.id), place: placeOf((over ?? active).id) }),
          onDragCancel: ({ active }) => t('order.cancelled', { name: nameOf(active.id) }),
        },
      }}
    >
      <SortableContext items={ids} strategy={verticalListSortingStrategy} disabled={off}>
        <DataTable
          {...table}
          keep={held}
          shell={SortableRow}
          shellHeader={t('order.column')}
          shellName={(row) => t(off ? 'order.off' : 'order.handle', { name: rowName(row) })}
        />
      </SortableContext>
    </DndContext>
  )
}

function SortableRow({ id, name, children }: RowShellProps) {
  const { attributes, listeners, setNodeRef, setActivatorNodeRef, transform, transition, isDragging } = useSortable({
    id,
  })
  const { 'aria-disabled': off, ...rest } = attributes
  return children({
    ref: setNodeRef,
    dragging: isDragging,
    style: transform ? { transform: `translateY(${transform.y}px)`, transition } : undefined,
    handle: (
      <button
        type="button"
        ref={setActivatorNodeRef}
        className={classes.handle}
        disabled={off}
        title={name}
        {...rest}
        {...listeners}
        aria-label={name}
      >
        <IconGripVertical size={16} aria-hidden />
      </button>
    ),
  })
}

import { NumberInput } from '@mantine/core'
import {
  IconArrowBarToDown,
  IconArrowBarToUp,
  IconArrowsSort,
  IconCopy,
  IconPencil,
  IconRowInsertBottom,
  IconRowInsertTop,
  IconTrash,
} from '@tabler/icons-react'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { OrderedResource } from '../../api/resource'
import { confirm } from '../../kit/change/confirm'
import { ownConnection } from '../../kit/change/own-connection'
import { askToRemove } from '../../kit/change/remove'
import { RowMenu } from '../../kit/list/RowMenu'
import { rowBefore, useMove } from '../../kit/list/useMove'
import { toastFault } from '../../kit/state/toast'

interface OrderedMenuProps<T> {
  resource: OrderedResource<T>
  row: T
  text: string
  link: string
  createLink: string
}

/**
 * The actions for a rule in its list. A copy comes after its original, because among equal priorities the older rule is
 * first.
 */
export function OrderedMenu<T extends { id: string; name: string; priority: number }>(props: OrderedMenuProps<T>) {
  const { resource, row, text, link, createLink } = props
  const { t } = useTranslation('firewall')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const move = useMove(resource)
  const go = (to: string, draft?: object) => void navigate({ to, search: true, state: { draft } } as never)
  const all = () => queries.getQueryData<T[]>([resource.kind]) ?? []
  const order = () => all().map(({ id }) => id)
  const moveTo = (place: number) => {
    const ids = order()
    return move(row.id, rowBefore(ids, ids, row.id, place))
  }
  const askWhere = () => {
    const ids = order()
    let place = ids.indexOf(row.id)
    void confirm({
      title: t('menu.placeTitle', { name: row.name }),
      text: (
        <NumberInput
          label={t('menu.placeLabel', { count: ids.length })}
          defaultValue={place + 1}
          onChange={(value) => {
            place = Math.min(Math.max(Number(value) || 1, 1), ids.length) - 1
          }}
          min={1}
          max={ids.length}
          allowDecimal={false}
        />
      ),
      verb: t('menu.placeVerb'),
      act: () => moveTo(place),
    })
  }
  const remove = () =>
    void askToRemove({
      resource,
      id: row.id,
      name: row.name,
      text: t(`${text}.deleteText`),
      guard: ownConnection,
      queries,
    })
  /** Opens the form for a new rule between two adjacent ones, or at either end. */
  const insert = async (before: T | undefined, after: T | undefined) => {
    try {
      // Two rules with equal priorities leave no room. Moving the later one to its current place gives it its own
      // priority.
      if (before && before.priority === after?.priority) await resource.move(after.id, before.id)
      go(createLink, { priority: before?.priority ?? (after?.priority ?? 0) - 1 })
    } catch (cause) {
      toastFault(cause)
    }
  }
  const above = () => insert(all()[order().indexOf(row.id) - 1], row)
  const below = () => insert(row, all()[order().indexOf(row.id) + 1])
  const copy = () => ({ ...row, name: t('copyName', { name: row.name }) })
  return (
    <RowMenu
      name={row.name}
      items={() => [
        { label: t('menu.edit'), icon: IconPencil, act: () => go(link) },
        { label: t('menu.duplicate'), icon: IconCopy, act: () => go(createLink, copy()) },
        { label: t('menu.above'), icon: IconArrowBarToUp, act: () => void above() },
        { label: t('menu.below'), icon: IconArrowBarToDown, act: () => void below() },
        { label: t('menu.top'), icon: IconRowInsertTop, act: () => void moveTo(0) },
        { label: t('menu.bottom'), icon: IconRowInsertBottom, act: () => void moveTo(order().length - 1) },
        { label: t('menu.place'), icon: IconArrowsSort, act: askWhere },
        { label: t('menu.delete'), icon: IconTrash, act: remove, danger: true },
      ]}
    />
  )
}

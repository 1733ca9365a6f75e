import { IconCopy, IconPencil, IconRowInsertBottom, IconRowInsertTop, IconTrash } from '@tabler/icons-react'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { OrderedResource } from '../../api/resource'
import { ownConnection } from '../../kit/own-connection'
import { RowMenu } from '../../kit/RowMenu'
import { askToRemove } from '../../kit/remove'
import { moved, useReorder } from '../../kit/useReorder'

interface OrderedMenuProps<T> {
  resource: OrderedResource<T>
  row: T
  text: string
  link: string
  createLink: string
}

/** What can be done with a rule in its list. A copy stands right behind it: of equal priorities the older comes first. */
export function OrderedMenu<T extends { id: string; name: string }>(props: OrderedMenuProps<T>) {
  const { resource, row, text, link, createLink } = props
  const { t } = useTranslation('firewall')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const reorder = useReorder(resource)
  const go = (to: string, draft?: object) => void navigate({ to, search: true, state: { draft } } as never)
  const moveTo = (place: 'first' | 'last') => {
    const ids = (queries.getQueryData<T[]>([resource.kind]) ?? []).map(({ id }) => id)
    void reorder(moved(ids, ids.indexOf(row.id), place === 'first' ? 0 : ids.length - 1))
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
  const copy = { ...row, name: t('copyName', { name: row.name }) }
  return (
    <RowMenu
      name={row.name}
      items={() => [
        { label: t('menu.edit'), icon: IconPencil, act: () => go(link) },
        { label: t('menu.duplicate'), icon: IconCopy, act: () => go(createLink, copy) },
        { label: t('menu.top'), icon: IconRowInsertTop, act: () => moveTo('first') },
        { label: t('menu.bottom'), icon: IconRowInsertBottom, act: () => moveTo('last') },
        { label: t('menu.delete'), icon: IconTrash, act: remove, danger: true },
      ]}
    />
  )
}

import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Resource } from '../../api/resource'
import { ResourceList } from '../../kit/list/ResourceList'
import { count } from '../../kit/text/format'
import { type Book, useUsage } from './book'
import classes from './Firewall.module.css'
import { Builtin, UsedBy } from './marks'

interface Group {
  id: string
  name: string
  description: string
  members: string[]
  builtin?: boolean
}

interface GroupListProps<T> {
  resource: Resource<T>
  text: string
  book: Book
  rowLink: (row: T) => string
  createLink: string
}

const shown = 6

/** Address or service groups, with their members by name. */
export function GroupList<T extends Group>({ book, ...list }: GroupListProps<T>) {
  const { t } = useTranslation('firewall')
  const usage = useUsage()
  const names = (row: T) => row.members.map((id) => book.name(id) ?? id)
  return (
    <>
      <ResourceList
        {...list}
        text={`firewall:${list.text}`}
        columns={[
          {
            key: 'name',
            header: t(`${list.text}.name.label`),
            cell: (row) => (
              <>
                {row.name} <Builtin builtin={row.builtin === true} />
              </>
            ),
            sortBy: (row) => row.name,
          },
          {
            key: 'members',
            header: t(`${list.text}.members.label`),
            width: 'minmax(0, 1.8fr)',
            cell: (row) => <Members names={names(row)} />,
            sortBy: (row) => row.members.length,
          },
          { key: 'description', header: t(`${list.text}.description.label`), cell: (row) => row.description || '–' },
          {
            key: 'used',
            header: t('usedBy'),
            width: '70px',
            align: 'right',
            cell: (row) => <UsedBy users={usage.get(row.id)} name={row.name} />,
            sortBy: (row) => usage.get(row.id)?.length ?? 0,
          },
        ]}
        searchText={(row) => `${book.everything(row.id)} ${row.description}`}
      />
      <Outlet />
    </>
  )
}

function Members({ names }: { names: string[] }) {
  const { t } = useTranslation('firewall')
  if (names.length === 0) return <span className="soft">{t('noMembers')}</span>
  return (
    <span className={classes.members}>
      {names.slice(0, shown).map((name) => (
        <span key={name} className={classes.tag}>
          {name}
        </span>
      ))}
      {names.length > shown && (
        <span className="soft">
          {t('moreMembers', { count: names.length - shown, shown: count(names.length - shown) })}
        </span>
      )}
    </span>
  )
}

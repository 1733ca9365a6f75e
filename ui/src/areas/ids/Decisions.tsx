import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { Outlet, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { idsSettings } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { IdsDecision } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import type { ListSearch } from '../../kit/list/list-logic'
import { RowList } from '../../kit/list/ResourceList'
import { RowButton } from '../../kit/list/RowButton'
import { count } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Ids.module.css'
import { Effect, originName, Untold } from './marks'
import { decisionsQuery } from './resources'
import { Status } from './Status'

export { Create } from './Ban'

type Row = Omit<IdsDecision, 'id'> & { id: string }

/** Who is banned, why and until when. There may be thousands, so the gateway searches. */
export default function Decisions() {
  const settings = useQuery({ queryKey: [idsSettings.kind], queryFn: idsSettings.read })
  return (
    <>
      <Status />
      {settings.data?.value.enabled && <Bans />}
      <Outlet />
    </>
  )
}

function Bans() {
  const { t } = useTranslation('ids')
  const [search] = useDebouncedValue((useSearch({ strict: false }) as ListSearch).q, 300)
  const query = useQuery({ ...decisionsQuery(search), placeholderData: keepPreviousData })
  const columns = useColumns()
  const { decisions = [], total = 0, error } = query.data ?? {}
  if (error) return <Untold error={error} text="decision" />
  const origins = [...new Set(decisions.map(({ origin }) => origin))].sort()
  return (
    <RowList
      query={query}
      rowsOf={(answer) => answer.decisions.map((row): Row => ({ ...row, id: String(row.id) }))}
      text="ids:decision"
      columns={columns}
      filters={
        origins.length > 1
          ? [
              {
                key: 'origin',
                label: t('decision.origin'),
                options: origins.map((value) => ({ value, label: originName(value) })),
                of: ({ origin }) => origin,
              },
            ]
          : []
      }
      createLink={paths.idsBan}
      end={
        total > decisions.length && (
          <p className={classes.note}>{t('decision.some', { shown: count(decisions.length), total: count(total) })}</p>
        )
      }
    />
  )
}

function useColumns(): Column<Row>[] {
  const { t } = useTranslation('ids')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const unban = async (id: string) => {
    await unwrap(http.DELETE('/ids/decisions/{id}', { params: { path: { id: Number(id) } } }))
    await queries.invalidateQueries({ queryKey: ['ids'] })
  }
  const columns: Column<Row>[] = [
    {
      key: 'value',
      header: t('decision.of'),
      cell: ({ value }) => <span className="mono">{value}</span>,
      sortBy: ({ value }) => value,
    },
    {
      key: 'reason',
      header: t('decision.cause'),
      width: 'minmax(0, 1.6fr)',
      cell: ({ reason }) => reason || <span className="soft">–</span>,
      sortBy: ({ reason }) => reason,
    },
    {
      key: 'origin',
      header: t('decision.origin'),
      width: '110px',
      cell: ({ origin }) => originName(origin),
      sortBy: ({ origin }) => origin,
    },
    {
      key: 'effect',
      header: t('decision.effect'),
      width: '150px',
      cell: (row) => <Effect decision={row} />,
    },
    {
      key: 'expires',
      header: t('decision.expires'),
      width: '100px',
      align: 'right',
      cell: ({ expires_at: at }) => <Time at={at} />,
      sortBy: ({ expires_at: at }) => at,
    },
  ]
  if (!canEdit) return columns
  return [
    ...columns,
    {
      key: 'unban',
      header: '',
      width: '76px',
      align: 'right',
      cell: ({ id, value: name }) => (
        <RowButton
          verb={t('decision.unban')}
          name={name}
          question={{ title: t('decision.unbanTitle', { name }), text: t('decision.unbanText') }}
          act={() => unban(id)}
          done={t('decision.unbanned', { name })}
        />
      ),
    },
  ]
}

import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { logOut } from '../../api/session'
import type { Session } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { RowButton } from '../../kit/list/RowButton'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Badge } from '../../kit/state/StateBadge'
import { toast } from '../../kit/state/toast'
import { Time } from '../../kit/text/Time'
import classes from './Profile.module.css'

// Logins and logouts appear as auth.login.success and auth.logout, so the key is their common prefix.
const sessionsQuery = {
  queryKey: ['auth', 'sessions'],
  queryFn: () => unwrap(http.GET('/auth/sessions')),
  refetchInterval: 30_000,
}

const end = (id: string) => unwrap(http.DELETE('/auth/sessions/{id}', { params: { path: { id } } }))

export default function Sessions() {
  const { t } = useTranslation('profile')
  const queries = useQueryClient()
  const query = useQuery(sessionsQuery)
  const refresh = () => queries.invalidateQueries(sessionsQuery)

  const endOthers = async (others: Session[]) => {
    const yes = await confirm({
      title: t('session.othersTitle'),
      text: t('session.othersText', { count: others.length }),
      verb: t('session.others'),
      danger: true,
      act: () => Promise.all(others.map(({ id }) => end(id))).finally(refresh),
    })
    if (yes) toast('live', t('session.othersDone'))
  }

  const columns: Column<Session>[] = [
    {
      key: 'browser',
      header: t('session.browser'),
      width: 'minmax(0, 1.6fr)',
      cell: (row) => (
        <span className={classes.session}>
          <span title={row.user_agent}>{row.browser}</span>
          {row.current && <Badge tone="live">{t('session.current')}</Badge>}
        </span>
      ),
    },
    {
      key: 'address',
      header: t('session.address'),
      width: 'minmax(0, 1.2fr)',
      cell: (row) => <span className="mono">{row.address}</span>,
    },
    { key: 'method', header: t('method'), width: 'minmax(0, 1.2fr)', cell: (row) => t(`methods.${row.method}`) },
    { key: 'since', header: t('session.since'), cell: (row) => <Time at={row.created_at} /> },
    { key: 'until', header: t('session.until'), cell: (row) => <Time at={row.expires_at} /> },
    {
      key: 'end',
      header: '',
      width: '80px',
      align: 'right',
      cell: (row) =>
        row.current ? (
          <Button size="compact-sm" variant="subtle" onClick={logOut}>
            {t('common:top.logOut')}
          </Button>
        ) : (
          <RowButton
            verb={t('session.end')}
            name={row.browser}
            question={{
              title: t('session.endTitle'),
              text: t('session.endText', { browser: row.browser, address: row.address }),
            }}
            act={() => end(row.id).finally(refresh)}
            done={t('session.ended')}
          />
        ),
    },
  ]
  return (
    <Loaded query={query} height={160}>
      {(rows) => {
        const others = rows.filter(({ current }) => !current)
        return (
          <Panel
            title={t('session.title')}
            aside={
              others.length > 0 && (
                <Button size="compact-sm" variant="default" onClick={() => endOthers(others)}>
                  {t('session.others')}
                </Button>
              )
            }
            flush
          >
            <DataTable label={t('session.title')} columns={columns} rows={rows} rowKey={(row) => row.id} />
          </Panel>
        )
      }}
    </Loaded>
  )
}

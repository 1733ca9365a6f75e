import { useTranslation } from 'react-i18next'
import { servers } from '../../api/resources'
import type { Backend, Server } from '../../api/types'
import type { Fields, Values } from '../../kit/form/fields'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { SubList } from '../../kit/list/SubList'
import { Notice } from '../../kit/state/Notice'
import { count, duration } from '../../kit/text/format'
import { type Live, useLive } from './health'
import { CheckWords, HealthBadge, Mark } from './marks'
import classes from './Proxy.module.css'
import { useBackends } from './useSites'

const fields: Fields<'proxy.server'> = [
  { name: 'name', type: 'text' },
  { name: 'address', type: 'mono' },
  { name: 'port', type: 'number' },
  { name: 'weight', type: 'number' },
  { name: 'backup', type: 'switch' },
  { name: 'active', type: 'switch' },
]

/** The state of a server, and why. */
export function ServerState({ server, live }: { server: Server; live: Live }) {
  return (
    <>
      <HealthBadge health={live.healthOfServer(server)} />
      {server.active && <CheckWords stat={live.server(server)} />}
    </>
  )
}

/** The servers of a backend with their live state. */
export function Servers({ backend }: { backend: Backend }) {
  const { t } = useTranslation('proxy')
  const live = useLive()
  const rows = useBackends().serversOf(backend.id)
  const defaults = {
    name: `server-${rows.length + 1}`,
    port: rows[0]?.port ?? (backend.scheme === 'https' ? 443 : 80),
  }
  const write = (values: Values) => ({ ...values, backend_id: backend.id, weight: values.weight ?? 0 })
  return (
    <SubList
      resource={servers}
      rows={rows}
      text="proxy:server"
      columns={[
        {
          key: 'active',
          header: t('on'),
          width: '42px',
          cell: (row) => <RowSwitch resource={servers} row={row} field="active" name={row.name} harmless />,
        },
        {
          key: 'name',
          header: t('server.name.label'),
          width: 'minmax(0, 1.4fr)',
          main: true,
          cell: (row) => (
            <span className={classes.stack}>
              <span>
                {row.name} {row.backup && <Mark>{t('server.isBackup')}</Mark>}
              </span>
              <small className={`mono ${classes.under}`}>{`${row.address}:${row.port}`}</small>
            </span>
          ),
        },
        {
          key: 'state',
          header: t('backend.health'),
          width: 'minmax(0, 1.2fr)',
          cell: (row) => (
            <span className={classes.stack}>
              <ServerState server={row} live={live} />
            </span>
          ),
        },
        {
          key: 'since',
          header: t('stats.since'),
          width: '76px',
          align: 'right',
          cell: (row) => {
            const stat = live.server(row)
            return stat ? duration(stat.last_change_seconds) : '–'
          },
        },
        { key: 'weight', header: t('server.weight.label'), width: '54px', align: 'right', cell: (row) => row.weight },
        {
          key: 'rate',
          header: t('stats.rate'),
          width: '62px',
          align: 'right',
          cell: (row) => count(live.server(row)?.req_rate ?? 0),
        },
        {
          key: 'sessions',
          header: t('stats.sessions'),
          width: '62px',
          align: 'right',
          cell: (row) => count(live.server(row)?.sessions ?? 0),
        },
      ]}
      fields={fields}
      defaults={defaults}
      shape={{ read: (row) => row, write }}
      name={(row) => row.name}
    >
      {backend.active && rows.length === 0 && (
        <Notice tone="bad" title={t('backend.emptyTitleOf')}>
          {t('healths.empty.help')}
        </Notice>
      )}
    </SubList>
  )
}

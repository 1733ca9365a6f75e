import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { DataTable } from '../../kit/list/DataTable'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import classes from './Ids.module.css'
import { machinesQuery } from './resources'

/** The machines whose logs CrowdSec knows about. */
export function Machines() {
  const { t } = useTranslation('ids')
  const query = useQuery(machinesQuery)
  if (query.data?.error) return null
  return (
    <Panel title={t('machine.title')} flush>
      <Loaded query={query} height={80}>
        {({ machines }) =>
          machines.length === 0 ? (
            <p className={classes.nothing}>{t('machine.none')}</p>
          ) : (
            <DataTable
              label={t('machine.title')}
              rows={machines}
              rowKey={({ name }) => name}
              columns={[
                {
                  key: 'name',
                  header: t('machine.name'),
                  width: 'minmax(0, 1.4fr)',
                  cell: ({ name, own }) => (
                    <span className={classes.daemon}>
                      <span className="mono">{name}</span>
                      {own && <Badge tone="off">{t('machine.own')}</Badge>}
                    </span>
                  ),
                },
                {
                  key: 'address',
                  header: t('machine.address'),
                  cell: ({ address }) => <span className="mono">{address || '–'}</span>,
                },
                { key: 'version', header: t('machine.version'), cell: ({ version }) => version || '–' },
                {
                  key: 'validated',
                  header: t('machine.validated'),
                  width: '110px',
                  cell: ({ validated }) => (
                    <Badge tone={validated ? 'live' : 'warn'}>
                      {t(validated ? 'machine.counts' : 'machine.ignored')}
                    </Badge>
                  ),
                },
                {
                  key: 'heard',
                  header: t('machine.heard'),
                  width: '110px',
                  align: 'right',
                  cell: ({ last_heartbeat: at }) => <Time at={at} />,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  )
}

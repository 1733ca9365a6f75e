import { useQuery } from '@tanstack/react-query'
import { Outlet, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { IdsAlert, IdsAlertDetail } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { RowList } from '../../kit/list/ResourceList'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Facts } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { count, exactTime } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Ids.module.css'
import { Effect, Untold } from './marks'
import { alertQuery, alertsQuery } from './resources'

type Row = Omit<IdsAlert, 'id'> & { id: string }

/** The choices to filter by age, in hours. */
const periods = ['24', '168']
const within = (at: string) => periods.filter((hours) => Date.now() - Date.parse(at) <= Number(hours) * 3_600_000)

/** A ban by an operator, so there was no attack. */
const byHand = (alert: { scenario: string }) => alert.scenario === 'gateway/ban'

/** CrowdSec's alerts. */
export default function Alerts() {
  const { t } = useTranslation('ids')
  const query = useQuery(alertsQuery)
  const columns: Column<Row>[] = [
    {
      key: 'who',
      header: t('alert.who'),
      cell: ({ value }) => <span className="mono">{value || '–'}</span>,
      sortBy: ({ value }) => value,
    },
    {
      key: 'scenario',
      header: t('alert.scenario'),
      width: 'minmax(0, 1.4fr)',
      cell: (alert) => (byHand(alert) ? t('alert.byHand') : <span className="mono">{alert.scenario}</span>),
      sortBy: ({ scenario }) => scenario,
    },
    {
      key: 'events',
      header: t('alert.events'),
      width: '80px',
      align: 'right',
      cell: ({ events_count: events }) => count(events),
      sortBy: ({ events_count: events }) => events,
    },
    {
      key: 'bans',
      header: t('alert.bans'),
      width: '70px',
      align: 'right',
      cell: ({ decisions_count: bans }) => (bans ? count(bans) : <span className="soft">0</span>),
      sortBy: ({ decisions_count: bans }) => bans,
    },
    {
      key: 'at',
      header: t('alert.at'),
      width: '110px',
      align: 'right',
      cell: ({ created_at: at }) => <Time at={at} />,
      sortBy: ({ created_at: at }) => at,
    },
  ]
  return (
    <>
      <Untold error={query.data?.error} text="alert" />
      {!query.data?.error && (
        <RowList
          query={query}
          rowsOf={({ alerts }) => alerts.map((row): Row => ({ ...row, id: String(row.id) }))}
          text="ids:alert"
          columns={columns}
          filters={[
            {
              key: 'hours',
              label: t('alert.period'),
              options: periods.map((value) => ({ value, label: t(`alert.periods.${value}`) })),
              of: ({ created_at }) => within(created_at),
            },
          ]}
          searchText={({ value, scenario, message, machine }) => [value, scenario, message, machine].join(' ')}
          rowLink={({ id }) => paths.idsAlert(id)}
        />
      )}
      <Outlet />
    </>
  )
}

/** One alert with the log lines that caused it, and the decisions that followed. */
export function Detail() {
  const { t } = useTranslation('ids')
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery(alertQuery(id))
  const titleOf = (alert: IdsAlertDetail) => (byHand(alert) ? t('alert.byHand') : alert.scenario)
  return (
    <DetailDrawer title={query.data ? titleOf(query.data) : t('alert.detail')} back={paths.idsAlerts}>
      <Loaded query={query} height={240}>
        {(alert) => (
          <div className={classes.detail}>
            <p>{alert.message}</p>
            <Facts
              facts={[
                [t('alert.who'), <Mono key="who" text={alert.value} />],
                [t('alert.events'), count(alert.events_count)],
                [t('alert.first'), exactTime(alert.started_at)],
                [t('alert.last'), exactTime(alert.stopped_at)],
                [t('alert.machine'), <Mono key="machine" text={alert.machine} />],
              ]}
            />
            <Consequences decisions={alert.decisions} />
            {!byHand(alert) && <Events events={alert.events} />}
          </div>
        )}
      </Loaded>
    </DetailDrawer>
  )
}

const Mono = ({ text }: { text: string }) => <span className="mono">{text || '–'}</span>

function Consequences({ decisions }: Pick<IdsAlertDetail, 'decisions'>) {
  const { t } = useTranslation('ids')
  return (
    <section aria-label={t('alert.decisions')}>
      <h3>{t('alert.decisions')}</h3>
      {decisions.length === 0 && <p className="soft">{t('alert.noDecisions')}</p>}
      <ul className={classes.list}>
        {decisions.map((one) => (
          <li key={one.id} className={classes.ban}>
            <Mono text={one.value} />
            <Effect decision={one} />
            <span className="soft">{t('alert.until', { time: exactTime(one.expires_at) })}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Events({ events }: Pick<IdsAlertDetail, 'events'>) {
  const { t } = useTranslation('ids')
  return (
    <section aria-label={t('alert.lines')}>
      <h3>{t('alert.lines')}</h3>
      {events.length === 0 && <p className="soft">{t('alert.noLines')}</p>}
      <ul className={classes.list}>
        {events.map(({ at, meta }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: log lines can repeat.
          <li key={index} className={classes.event}>
            {exactTime(at)}
            <dl>
              {Object.entries(meta).map(([name, value]) => (
                <div key={name} style={{ display: 'contents' }}>
                  <dt>{name}</dt>
                  <dd className="mono">{value}</dd>
                </div>
              ))}
            </dl>
          </li>
        ))}
      </ul>
    </section>
  )
}

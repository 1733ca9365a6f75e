import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { ProxyHistory } from '../../api/types'
import { Chart } from '../../kit/chart/Chart'
import { hour, rate } from '../../kit/chart/history'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { bytes, count } from '../../kit/text/format'
import classes from './Proxy.module.css'
import { historyQuery, linesOf } from './traffic'

/** The requests and errors of the last hour. */
export function Traffic() {
  const { t } = useTranslation('proxy')
  const query = useQuery(historyQuery)
  return (
    <Panel title={t('stats.traffic')}>
      <Loaded query={query} height={220}>
        {(history) =>
          history.points.length > 0 ? (
            <TrafficChart history={history} />
          ) : (
            <p className="soft">{t('stats.noTraffic')}</p>
          )
        }
      </Loaded>
    </Panel>
  )
}

function TrafficChart({ history }: { history: ProxyHistory }) {
  const { t } = useTranslation('proxy')
  const { times, requests, errors } = useMemo(() => linesOf(history), [history])
  const now = history.points.at(-1)
  return (
    <div className={classes.chart}>
      <Chart
        label={t('stats.chart')}
        times={times}
        values={requests}
        bad={errors}
        window={hour}
        height={200}
        clock
        format={(value) => String(value)}
      />
      {now && (
        <ul className={classes.legend}>
          <li>{t('stats.requests', { rate: rate(now.requests) })}</li>
          <li data-bad>{t('stats.errors', { rate: rate(now.errors) })}</li>
          <li className={classes.bare}>
            {t('stats.volume', { in: bytes(now.bytes_in), out: bytes(now.bytes_out), sessions: count(now.sessions) })}
          </li>
        </ul>
      )}
    </div>
  )
}

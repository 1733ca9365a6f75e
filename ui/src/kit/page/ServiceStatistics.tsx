import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { Charts } from '../chart/HistoryChart'
import { Loaded } from '../state/Loaded'
import { Notice } from '../state/Notice'
import { Facts, Panel } from './Page'

interface ServiceStatisticsProps<Stats, Hour> {
  /** Where its texts are: stats.hour, stats.nothing, stats.title, stats.unknown. */
  text: string
  stats: UseQueryResult<Stats>
  history: UseQueryResult<Hour>
  charts: (hour: Hour) => ReactNode
  facts: (now: Stats) => [label: string, value: ReactNode][]
  aside?: ReactNode
}

/** A service's last hour, and its counters since it started. */
export function ServiceStatistics<Stats extends { error: string }, Hour extends { points: unknown[] }>({
  text,
  stats,
  history,
  charts,
  facts,
  aside,
}: ServiceStatisticsProps<Stats, Hour>) {
  const { t } = useTranslation(text)
  return (
    <>
      <Panel title={t('stats.hour')}>
        <Loaded query={history} height={170}>
          {(hour) =>
            hour.points.length === 0 ? <p className="soft">{t('stats.nothing')}</p> : <Charts>{charts(hour)}</Charts>
          }
        </Loaded>
      </Panel>
      <Panel title={t('stats.title')} aside={aside}>
        <Loaded query={stats} height={100}>
          {(now) =>
            now.error ? (
              <Notice tone="warn" title={t('stats.unknown')}>
                {now.error}
              </Notice>
            ) : (
              <Facts facts={facts(now)} />
            )
          }
        </Loaded>
      </Panel>
    </>
  )
}

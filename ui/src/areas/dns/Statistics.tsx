import { Button } from '@mantine/core'
import { IconTrash } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import { HistoryChart } from '../../kit/chart/HistoryChart'
import { rate } from '../../kit/chart/history'
import { ServiceStatistics } from '../../kit/page/ServiceStatistics'
import { bytes, count, duration, percent } from '../../kit/text/format'
import { askToFlush } from './flush'

const share = (value: number) => percent(value, 1)

/** The resolver's queries, and its cache hits. */
export default function Statistics() {
  const { t } = useTranslation('dns')
  const stats = useQuery({
    queryKey: ['dns', 'stats'],
    queryFn: () => unwrap(http.GET('/dns/stats')),
    refetchInterval: 5000,
  })
  const history = useQuery({
    queryKey: ['dns', 'stats', 'history'],
    queryFn: () => unwrap(http.GET('/dns/stats/history')),
    refetchInterval: 10_000,
  })
  return (
    <ServiceStatistics
      text="dns"
      stats={stats}
      history={history}
      aside={<Flush />}
      charts={(hour) => (
        <>
          <HistoryChart
            title={t('stats.queries')}
            history={hour}
            of={({ queries }) => queries}
            now={(value) => t('stats.rate', { rate: rate(value) })}
          />
          <HistoryChart
            title={t('stats.hitRate')}
            history={hour}
            of={({ hit_rate }) => hit_rate}
            now={share}
            scale={share}
            max={1}
          />
        </>
      )}
      facts={(now) => [
        [t('stats.total'), count(now.queries)],
        [t('stats.hits'), count(now.cache_hits)],
        [t('stats.misses'), count(now.cache_misses)],
        [t('stats.hitRate'), now.queries > 0 ? share(now.hit_rate) : '–'],
        [t('stats.recursive'), count(now.recursive_replies)],
        [t('stats.prefetch'), count(now.prefetch)],
        [t('stats.limited'), count(now.rate_limited)],
        [t('stats.unwanted'), count(now.unwanted)],
        [t('stats.memory'), bytes(now.cache_memory_bytes)],
        [
          t('stats.reloads'),
          <span key="r" title={t('stats.reloadsHelp')}>
            {count(now.reloads)}
          </span>,
        ],
        [t('stats.uptime'), duration(now.uptime_seconds)],
      ]}
    />
  )
}

function Flush() {
  const { t } = useTranslation('dns')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  if (!canEdit) return null
  return (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<IconTrash size={14} aria-hidden />}
      onClick={() => askToFlush(queries)}
    >
      {t('flush.verb')}
    </Button>
  )
}

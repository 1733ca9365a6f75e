import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { HistoryChart } from '../../kit/chart/HistoryChart'
import { rate } from '../../kit/chart/history'
import { ServiceStatistics } from '../../kit/page/ServiceStatistics'
import { bytes, count, duration, percent } from '../../kit/text/format'

const share = (value: number) => percent(value, 1)

/** The proxy's traffic, and its cache hits. */
export default function Statistics() {
  const { t } = useTranslation('forward-proxy')
  const stats = useQuery({
    queryKey: ['forward-proxy', 'stats'],
    queryFn: () => unwrap(http.GET('/forward-proxy/stats')),
    refetchInterval: 5000,
  })
  const history = useQuery({
    queryKey: ['forward-proxy', 'stats', 'history'],
    queryFn: () => unwrap(http.GET('/forward-proxy/stats/history')),
    refetchInterval: 10_000,
  })
  return (
    <ServiceStatistics
      text="forward-proxy"
      stats={stats}
      history={history}
      charts={(hour) => (
        <>
          <HistoryChart
            title={t('stats.requests')}
            history={hour}
            of={({ requests }) => requests}
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
          <HistoryChart
            title={t('stats.volume')}
            history={hour}
            of={(point) => point.bytes}
            now={(value) => t('stats.rate', { rate: bytes(value) })}
            scale={bytes}
            binary
          />
        </>
      )}
      facts={(now) => [
        [t('stats.requests'), count(now.requests)],
        [t('stats.hits'), count(now.hits)],
        [t('stats.hitRate'), now.requests > 0 ? share(now.hit_rate) : '–'],
        [t('stats.errors'), count(now.errors)],
        [t('stats.toClients'), bytes(now.bytes_to_clients)],
        [t('stats.fromServers'), bytes(now.bytes_from_servers)],
        [t('stats.clients'), count(now.clients)],
        [t('stats.memory'), bytes(now.cache_memory_bytes)],
        [t('stats.objects'), count(now.cache_objects)],
        [t('stats.uptime'), duration(now.uptime_seconds)],
      ]}
    />
  )
}

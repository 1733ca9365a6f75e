import { queryOptions, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { live } from '../../api/live'
import type { LoadPoint, Resources } from '../../api/types'
import { Chart } from '../../kit/chart/Chart'
import { hour, lineOf } from '../../kit/chart/history'
import { Meter } from '../../kit/page/Meter'
import { Loaded } from '../../kit/state/Loaded'
import { bytes, count, duration, percent } from '../../kit/text/format'
import classes from './Overview.module.css'

const loadQuery = queryOptions({
  queryKey: ['system', 'resources', 'history'],
  queryFn: () => unwrap(http.GET('/system/resources/history')),
  refetchInterval: 5000,
})

const memoryUsed = (one: Resources) => one.memory_total_bytes - one.memory_available_bytes

/** Load, memory, connections and disk: the current value, and the last hour. */
export function ResourceMeters() {
  const { t } = useTranslation('overview')
  const query = useQuery({
    queryKey: ['system', 'resources'],
    queryFn: async () => live([await unwrap(http.GET('/system/resources'))])[0]!,
    refetchInterval: 3000,
  })
  const { data: past } = useQuery(loadQuery)
  const lines = useMemo(() => {
    const line = (of: (point: LoadPoint) => number) => lineOf(past ?? { points: [], step_seconds: 0 }, of)
    return {
      load: line(({ load1 }) => load1),
      memory: line(({ memory_used }) => 100 * memory_used),
      conntrack: line(({ conntrack_count }) => conntrack_count),
    }
  }, [past])
  const common = { window: hour, height: 72 }

  return (
    <Loaded query={query} height={150}>
      {(now) => {
        const diskUsed = now.disk_total_bytes - now.disk_free_bytes
        return (
          <div className={classes.meters}>
            <Meter
              title={t('meters.load')}
              value={now.load1.toFixed(2)}
              note={t('meters.loadNote', {
                five: now.load5.toFixed(2),
                fifteen: now.load15.toFixed(2),
                count: now.num_cpus,
              })}
              alarm={now.load1 > 2 * now.num_cpus && t('meters.high')}
            >
              <Chart {...common} {...lines.load} label={t('meters.loadChart')} format={(value) => value.toFixed(1)} />
            </Meter>
            <Meter
              title={t('meters.memory')}
              value={percent(memoryUsed(now), now.memory_total_bytes)}
              note={t('meters.of', { used: bytes(memoryUsed(now)), total: bytes(now.memory_total_bytes) })}
              alarm={memoryUsed(now) > 0.9 * now.memory_total_bytes && t('meters.high')}
            >
              <Chart
                {...common}
                {...lines.memory}
                label={t('meters.memoryChart')}
                max={100}
                format={(value) => `${value} %`}
              />
            </Meter>
            <Meter
              title={t('meters.conntrack')}
              value={count(now.conntrack_count)}
              note={
                now.conntrack_max > 0 ? t('meters.max', { max: count(now.conntrack_max) }) : t('meters.noConntrack')
              }
              alarm={now.conntrack_max > 0 && now.conntrack_count > 0.8 * now.conntrack_max && t('meters.high')}
            >
              <Chart {...common} {...lines.conntrack} label={t('meters.conntrackChart')} floor={10} format={count} />
            </Meter>
            <Meter
              title={t('meters.disk')}
              value={percent(diskUsed, now.disk_total_bytes)}
              note={t('meters.of', { used: bytes(diskUsed), total: bytes(now.disk_total_bytes) })}
              alarm={diskUsed > 0.9 * now.disk_total_bytes && t('meters.high')}
            >
              <meter
                className={classes.bar}
                aria-label={t('meters.disk')}
                min={0}
                max={now.disk_total_bytes}
                value={diskUsed}
              />
              <p className={classes.uptime}>{t('meters.uptime', { time: duration(now.uptime_seconds) })}</p>
            </Meter>
          </div>
        )
      }}
    </Loaded>
  )
}

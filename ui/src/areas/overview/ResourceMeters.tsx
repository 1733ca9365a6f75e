import { type QueryFunctionContext, useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { live } from '../../api/live'
import type { Resources } from '../../api/types'
import { Chart } from '../../kit/Chart'
import { bytes, count, duration, percent } from '../../kit/format'
import { Loaded } from '../../kit/Loaded'
import { Meter } from './Meter'
import classes from './Overview.module.css'

type Sample = Resources & { at: number }

const interval = 3
const longest = 300
const shortest = 60

/** The query cache keeps the last five minutes, so the charts survive a visit to another page. */
async function sample({ client, queryKey }: QueryFunctionContext): Promise<Sample[]> {
  const [now] = live([await unwrap(http.GET('/system/resources'))])
  const past = client.getQueryData<Sample[]>(queryKey) ?? []
  return [...past, { ...now!, at: Date.now() / 1000 }].slice(-longest / interval)
}

const memoryUsed = (one: Resources) => one.memory_total_bytes - one.memory_available_bytes

/** Load, memory, connections and disk: the number now, and how it came here. */
export function ResourceMeters() {
  const { t } = useTranslation('overview')
  const query = useQuery({
    queryKey: ['system', 'resources'],
    queryFn: sample,
    refetchInterval: interval * 1000,
    gcTime: longest * 1000,
  })

  return (
    <Loaded query={query} height={150}>
      {(samples) => {
        const now = samples.at(-1)!
        const diskUsed = now.disk_total_bytes - now.disk_free_bytes
        const common = {
          times: samples.map((one) => one.at),
          // The charts widen as they fill, so that a page just opened is not an empty frame.
          window: Math.min(Math.max(now.at - samples[0]!.at, shortest), longest),
          height: 72,
        }
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
              <Chart
                {...common}
                label={t('meters.loadChart')}
                values={samples.map((one) => one.load1)}
                format={(value) => value.toFixed(1)}
              />
            </Meter>
            <Meter
              title={t('meters.memory')}
              value={percent(memoryUsed(now), now.memory_total_bytes)}
              note={t('meters.of', { used: bytes(memoryUsed(now)), total: bytes(now.memory_total_bytes) })}
              alarm={memoryUsed(now) > 0.9 * now.memory_total_bytes && t('meters.high')}
            >
              <Chart
                {...common}
                label={t('meters.memoryChart')}
                values={samples.map((one) => (100 * memoryUsed(one)) / one.memory_total_bytes)}
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
              <Chart
                {...common}
                label={t('meters.conntrackChart')}
                values={samples.map((one) => one.conntrack_count)}
                floor={10}
                format={count}
              />
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

import { type QueryFunctionContext, useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { Resources } from '../../api/types'
import { Chart } from '../../kit/Chart'
import { bytes, count, duration, percent } from '../../kit/format'
import { Loaded } from '../../kit/Loaded'
import classes from './Overview.module.css'

type Sample = Resources & { at: number }

const interval = 3
const windowSeconds = 300

/** The query cache keeps the last five minutes, so the charts survive a visit to another page. */
async function sample({ client, queryKey }: QueryFunctionContext): Promise<Sample[]> {
  const now = await unwrap(http.GET('/system/resources'))
  const past = client.getQueryData<Sample[]>(queryKey) ?? []
  return [...past, { ...now, at: Date.now() / 1000 }].slice(-windowSeconds / interval)
}

/** Load, memory, connections and disk: the number now, and how it came here. */
export function ResourceMeters() {
  const { t } = useTranslation('overview')
  const query = useQuery({
    queryKey: ['system', 'resources'],
    queryFn: sample,
    refetchInterval: interval * 1000,
    gcTime: windowSeconds * 1000,
  })

  return (
    <Loaded query={query} height={150}>
      {(samples) => {
        const now = samples.at(-1)!
        const used = (one: Resources) => one.memory_total_bytes - one.memory_available_bytes
        const diskUsed = now.disk_total_bytes - now.disk_free_bytes
        const chart = (
          label: string,
          value: (one: Sample) => number,
          max: number | undefined,
          format: (value: number) => string,
        ) => (
          <Chart
            label={t('meters.chart', { label })}
            times={samples.map((one) => one.at)}
            values={samples.map(value)}
            window={windowSeconds}
            max={max}
            height={72}
            format={format}
          />
        )
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
              warn={now.load1 > 2 * now.num_cpus}
            >
              {chart(
                t('meters.load'),
                (one) => one.load1,
                undefined,
                (value) => value.toFixed(1),
              )}
            </Meter>
            <Meter
              title={t('meters.memory')}
              value={percent(used(now), now.memory_total_bytes)}
              note={t('meters.of', { used: bytes(used(now)), total: bytes(now.memory_total_bytes) })}
              warn={used(now) > 0.9 * now.memory_total_bytes}
            >
              {chart(
                t('meters.memory'),
                (one) => (100 * used(one)) / one.memory_total_bytes,
                100,
                (value) => `${value} %`,
              )}
            </Meter>
            <Meter
              title={t('meters.conntrack')}
              value={count(now.conntrack_count)}
              note={
                now.conntrack_max > 0 ? t('meters.max', { max: count(now.conntrack_max) }) : t('meters.noConntrack')
              }
              warn={now.conntrack_max > 0 && now.conntrack_count > 0.8 * now.conntrack_max}
            >
              {chart(
                t('meters.conntrack'),
                (one) => one.conntrack_count,
                undefined,
                (value) => count(value),
              )}
            </Meter>
            <Meter
              title={t('meters.disk')}
              value={percent(diskUsed, now.disk_total_bytes)}
              note={t('meters.of', { used: bytes(diskUsed), total: bytes(now.disk_total_bytes) })}
              warn={diskUsed > 0.9 * now.disk_total_bytes}
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

interface MeterProps {
  title: string
  value: string
  note: string
  warn: boolean
  children: ReactNode
}

function Meter({ title, value, note, warn, children }: MeterProps) {
  const { t } = useTranslation('overview')
  return (
    <section className={classes.meter}>
      <h2>{title}</h2>
      <div className={classes.value} data-warn={warn || undefined}>
        {value}
        {warn && <span>{t('meters.high')}</span>}
      </div>
      <div className={classes.note}>{note}</div>
      <div className={classes.picture}>{children}</div>
    </section>
  )
}

import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { WafAlert, WafSummary } from '../../api/types'
import { Chart } from '../../kit/chart/Chart'
import { Panel } from '../../kit/page/Page'
import { count } from '../../kit/text/format'
import { alertActions } from './alert-logic'
import { AlertsLink } from './marks'
import classes from './Waf.module.css'

const hour = 3600

/** The lines of a chart: blocked, detected, and not inspected. */
export function useSeries(series: WafSummary['series']) {
  return useMemo(() => {
    const of = (name: WafAlert['action']) => series.map((one) => one[name])
    return {
      times: series.map(({ at }) => Date.parse(at) / 1000),
      values: of('blocked'),
      warn: of('detected'),
      bad: of('unavailable'),
      window: (series.length - 1) * hour,
    }
  }, [series])
}

/**
 * The number of requests with this action in the last day. Requests that were not inspected are only known as records.
 */
export function totalOf({ actions }: WafSummary, action: WafAlert['action']): number {
  const found = actions.find(({ name }) => name === action)
  return (action === 'unavailable' ? found?.records : found?.requests) ?? 0
}

/** The WAF's findings in the last day, by hour. */
export function Day({ summary }: { summary: WafSummary }) {
  const { t } = useTranslation('waf')
  const lines = useSeries(summary.series)
  return (
    <Panel title={t('day.title')}>
      <ul className={classes.legend}>
        {alertActions.map((action) => {
          const number = totalOf(summary, action)
          return (
            <li key={action} data-action={action}>
              <AlertsLink of={{ action }}>{t(`day.${action}`, { count: number, number: count(number) })}</AlertsLink>
            </li>
          )
        })}
      </ul>
      <p className={classes.soft}>{t('day.atLeast')}</p>
      <Chart {...lines} label={t('day.chart')} height={150} floor={5} clock format={count} />
    </Panel>
  )
}

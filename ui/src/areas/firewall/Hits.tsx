import { Button } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import { confirm } from '../../kit/change/confirm'
import { Sparkline } from '../../kit/chart/Sparkline'
import { bytes, count } from '../../kit/text/format'
import { slots, useCounters, useHits } from './counters'
import classes from './Firewall.module.css'

/** Polls the counters, without redrawing the page for each answer. */
export function CounterFeed() {
  useCounters()
  return null
}

const rateText = (rate: number) => (rate >= 10 ? count(Math.round(rate)) : rate.toFixed(1))

/** How often a rule has matched, its current rate, and the rates of the last minute. */
export function HitsCell({ id }: { id: string }) {
  const { t } = useTranslation('firewall')
  const hits = useHits(id)
  if (!hits) return <span className="soft">–</span>
  const rate = hits.rates.at(-1) ?? 0
  return (
    <span
      className={classes.hits}
      title={t('hits.title', { packets: count(hits.packets), bytes: bytes(hits.bytes), recent: count(hits.recent) })}
    >
      <span>
        {count(hits.packets)}
        {rate > 0 && <small className={classes.rate}>{t('hits.rate', { rate: rateText(rate) })}</small>}
      </span>
      <Sparkline values={hits.rates} slots={slots} />
    </span>
  )
}

/** The button that resets the totals of all rules. */
export function ResetHits() {
  const { t } = useTranslation('firewall')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  if (!canEdit) return null
  const ask = () =>
    void confirm({
      title: t('hits.reset.title'),
      text: t('hits.reset.text'),
      verb: t('hits.reset.verb'),
      act: async () => {
        await unwrap(http.POST('/firewall/counters/reset', { body: {} }))
        await queries.invalidateQueries({ queryKey: ['firewall', 'counters'] })
      },
    })
  return (
    <Button variant="default" onClick={ask}>
      {t('hits.reset.button')}
    </Button>
  )
}

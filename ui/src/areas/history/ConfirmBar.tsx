import './texts'
import { Button, CloseButton } from '@mantine/core'
import { IconArrowBackUp, IconHourglass } from '@tabler/icons-react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type RefObject, useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, onUnconfirmed, unwrap } from '../../api/client'
import { useCanEdit, useMe } from '../../api/session'
import type { WaitingSet } from '../../api/types'
import { deedsOf } from '../../kit/change/words'
import { FaultNotice } from '../../kit/state/Loaded'
import { Badge } from '../../kit/state/StateBadge'
import { toast } from '../../kit/state/toast'
import { clockTime } from '../../kit/text/format'
import { paths } from '../../paths'
import classes from './ConfirmBar.module.css'
import { deedsOrComponents } from './fate'
import { useProbe } from './probe'
import { secondsLeft, setQuery, type Waiting, waitingQuery } from './waiting'

/** Pending changes: the time left, whether the gateway is reachable, and in the end the outcome. */
export default function ConfirmBar() {
  const queries = useQueryClient()
  const me = useMe()
  const { data, isError } = useQuery(waitingQuery)
  const [seen, setSeen] = useState<string[]>([])
  /** Changes that need no more mention. */
  const [settled, setSettled] = useState<string[]>([])
  const settle = (id: string) => setSettled((all) => [...all, id])
  // Hides changes decided here, even before the next poll.
  const sets = (data?.sets ?? []).filter(({ id }) => !settled.includes(id))
  const ids = sets.map(({ id }) => id)
  const fresh = ids.filter((id) => !seen.includes(id))
  if (fresh.length > 0) setSeen([...seen, ...fresh])

  // The answer to a change says that it is pending, so there is no need to poll first.
  useEffect(() => {
    onUnconfirmed(({ id, by }) => {
      const set: WaitingSet = { id, actor: me.email, confirm_by: by, applied_at: null, components: [] }
      queries.setQueryData<Waiting>(waitingQuery.queryKey, (old) => ({
        ahead: old?.ahead ?? 0,
        sets: [...(old?.sets ?? []).filter((one) => one.id !== id), set],
      }))
      void queries.invalidateQueries(waitingQuery)
    })
    return () => onUnconfirmed(() => {})
  }, [queries, me.email])

  const gone = seen.filter((id) => !ids.includes(id) && !settled.includes(id))
  const bars = useRef<HTMLDivElement>(null)
  useRoomFor(bars, sets.length > 0)
  return (
    <div ref={bars} className={classes.bars}>
      {sets.map((set) => (
        <Unconfirmed
          key={set.id}
          set={set}
          ahead={data?.ahead ?? 0}
          unknown={isError}
          onSettled={() => settle(set.id)}
        />
      ))}
      {gone.map((id) => (
        <Outcome key={id} id={id} onDismiss={() => settle(id)} />
      ))}
    </div>
  )
}

/** Makes drawers start below the bar, so that it stays visible and usable. */
function useRoomFor(bars: RefObject<HTMLDivElement | null>, wanted: boolean) {
  useEffect(() => {
    if (!wanted || !bars.current) return
    const bar = bars.current
    const { style } = document.documentElement
    const watch = new ResizeObserver(() =>
      style.setProperty('--gw-bar-bottom', `${Math.ceil(bar.getBoundingClientRect().bottom)}px`),
    )
    watch.observe(bar)
    return () => {
      watch.disconnect()
      style.removeProperty('--gw-bar-bottom')
    }
  }, [bars, wanted])
}

/** Ticks every quarter of a second, so that the countdown skips no second. */
function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 250)
    return () => clearInterval(timer)
  }, [])
  return now
}

interface UnconfirmedProps {
  set: WaitingSet
  ahead: number
  /** The last poll got no answer. */
  unknown: boolean
  onSettled: () => void
}

function Unconfirmed({ set, ahead, unknown, onSettled }: UnconfirmedProps) {
  const { t } = useTranslation('history')
  const queries = useQueryClient()
  const me = useMe()
  const canEdit = useCanEdit()
  const left = secondsLeft(set.confirm_by, useNow(), ahead)
  const applied = set.applied_at !== null
  const { data: whole } = useQuery({ ...setQuery(set.id), enabled: applied })
  const probed = useProbe(set.id, applied && left > 0)
  const what = deedsOrComponents(whole, set.components)
  const path = { params: { path: { id: set.id } } }
  const settled = (text: string) => {
    onSettled()
    toast('live', text, what)
    void queries.invalidateQueries()
  }
  const keep = useMutation({
    mutationFn: (proof: string) => unwrap(http.POST('/change-sets/{id}/confirm', { ...path, body: { proof } })),
    onSuccess: () => settled(t('bar.kept')),
  })
  const undo = useMutation({
    mutationFn: () => unwrap(http.POST('/change-sets/{id}/discard', path)),
    onSuccess: () => settled(t('bar.undone')),
  })
  const fault = keep.error ?? undo.error
  const silent = applied && probed.state === 'silent'
  return (
    <section className={classes.bar} data-tone={silent || unknown ? 'bad' : 'warn'} aria-label={t('bar.label')}>
      <IconHourglass size={18} className={classes.icon} aria-hidden />
      <div className={classes.text}>
        <div className={classes.what}>
          {set.actor === me.email ? t('bar.mine', { what }) : t('bar.theirs', { who: set.actor, what })}
        </div>
        <div className={classes.facts}>
          <span role="timer" className={classes.left}>
            {left > 0
              ? t('bar.left', { seconds: left })
              : unknown
                ? t('bar.dueSilent', { time: clockTime(Date.parse(set.confirm_by) - ahead) })
                : t('bar.due')}
          </span>
          {left > 0 && (
            <span role="status">
              {applied ? (
                <Badge tone={probed.state === 'answers' ? 'live' : probed.state === 'silent' ? 'bad' : 'off'}>
                  {t(`bar.${probed.state}`)}
                </Badge>
              ) : (
                t('bar.applying')
              )}
            </span>
          )}
        </div>
        {fault && <FaultNotice fault={fault} />}
      </div>
      {canEdit && (
        <div className={classes.actions}>
          <Button
            size="compact-sm"
            loading={keep.isPending}
            disabled={probed.state !== 'answers' || undo.isPending || left === 0}
            onClick={() => keep.mutate(probed.proof)}
          >
            {t('bar.keep')}
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            loading={undo.isPending}
            disabled={!applied || keep.isPending || left === 0}
            onClick={() => undo.mutate()}
          >
            {t('bar.undo')}
          </Button>
        </div>
      )}
    </section>
  )
}

/** The outcome of a change that was pending on this page. A revert stays until dismissed. */
function Outcome({ id, onDismiss }: { id: string; onDismiss: () => void }) {
  const { t } = useTranslation('history')
  const { data: set } = useQuery({
    ...setQuery(id),
    refetchInterval: ({ state }) => (state.data?.state === 'waiting' ? 1000 : false),
  })
  const by = set?.reverted_by ?? ''
  const { data: back } = useQuery({ ...setQuery(by), enabled: by !== '' })
  const what = set && deedsOf(set.kinds)
  const kept = set?.state === 'confirmed'
  // biome-ignore lint/correctness/useExhaustiveDependencies: announced once.
  useEffect(() => {
    if (!kept) return
    toast('live', t('bar.kept'), what)
    onDismiss()
  }, [kept])
  if (set?.state !== 'taken_back') return null
  return (
    <section className={classes.bar} data-tone="warn" aria-label={t('bar.label')} role="status">
      <IconArrowBackUp size={18} className={classes.icon} aria-hidden />
      <div className={classes.text}>{t('bar.wentBack', { what, why: back?.reason ?? '' })}</div>
      <div className={classes.actions}>
        <Link to={paths.changeSet(id)}>{t('bar.view')}</Link>
        <CloseButton aria-label={t('bar.dismiss')} onClick={onDismiss} />
      </div>
    </section>
  )
}

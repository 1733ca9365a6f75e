import { Button, Textarea } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { answer, http, unwrap } from '../../api/client'
import { wafConfigs } from '../../api/resources'
import type { WafExclusion, WafProposal } from '../../api/types'
import i18n from '../../i18n/i18n'
import { renew } from '../../kit/change/renew'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { toastApplied } from '../../kit/state/toast'
import { partName } from './marks'
import classes from './Waf.module.css'

/** An exclusion in words. */
function inWords({ rule_id: id, path, exact, variable, parameter }: WafExclusion): string {
  const everywhere = i18n.t('waf:tune.everywhere')
  const where =
    path && (exact || path !== '/') ? i18n.t(exact ? 'waf:tune.at' : 'waf:tune.below', { path }) : everywhere
  const words = { id, where, part: partName(variable), parameter }
  return i18n.t(variable ? 'waf:tune.parameter' : 'waf:tune.rule', words)
}

/**
 * Turns "this was legitimate" into the exclusions that a request needs: shows them, previews their effect, asks why,
 * and saves.
 */
export function Tune({ id, onClose }: { id: string; onClose: () => void }) {
  const { t } = useTranslation('waf')
  const query = useQuery({
    queryKey: ['waf', 'propose', id],
    queryFn: () => unwrap(http.POST('/waf/alerts/{id}/propose', { params: { path: { id } } })),
    // The proposal depends on the domain's settings, so do not keep it.
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
  return (
    <section className={classes.proposal} aria-label={t('tune.title')}>
      <h3>{t('tune.title')}</h3>
      {query.isPending && <p className="soft">{t('tune.asking')}</p>}
      <Loaded query={query} height={160}>
        {(proposal) => (
          <>
            <Outcome proposal={proposal} />
            <Save id={id} proposal={proposal} onClose={onClose} />
          </>
        )}
      </Loaded>
      {query.isError && (
        <Button variant="default" size="compact-sm" onClick={onClose}>
          {t('common:cancel')}
        </Button>
      )}
    </section>
  )
}

function Outcome({ proposal: { exclusions, replay, attacks, notes } }: { proposal: WafProposal }) {
  const { t } = useTranslation('waf')
  return (
    <>
      <div>
        <h4>{t('tune.proposed', { count: exclusions.length })}</h4>
        <ul>
          {exclusions.map((exclusion) => (
            <li key={inWords(exclusion)}>{inWords(exclusion)}</li>
          ))}
        </ul>
      </div>
      {notes.map((note) => (
        <Notice key={note} tone="warn">
          {note}
        </Notice>
      ))}
      {replay && (
        <div>
          <h4>{t('tune.replay')}</h4>
          <div className={classes.replay}>
            <Verdict title={t('tune.before')} outcome={replay.before} />
            <Verdict title={t('tune.after', { count: exclusions.length })} outcome={replay.after} />
          </div>
        </div>
      )}
      <div>
        <h4>{t('tune.attacks')}</h4>
        <Attacks attacks={attacks} />
      </div>
    </>
  )
}

function Verdict({ title, outcome }: { title: string; outcome: WafProposal['replay']['before'] }) {
  const { t } = useTranslation('waf')
  return (
    <section aria-label={title}>
      <div className={classes.action}>
        <span>{title}</span>
        <Badge tone={outcome.refused ? 'bad' : 'live'}>{t(outcome.refused ? 'tune.refused' : 'tune.passes')}</Badge>
      </div>
      <dl>
        <dt>{t('tune.score')}</dt>
        <dd>{outcome.score}</dd>
        <dt>{t('tune.matching')}</dt>
        <dd className="mono">{outcome.rules.join(', ') || t('tune.noRules')}</dd>
      </dl>
    </section>
  )
}

function Attacks({ attacks: { total, refused, passing } }: Pick<WafProposal, 'attacks'>) {
  const { t } = useTranslation('waf')
  if (total === 0) return <Notice tone="warn">{t('tune.noAttacks')}</Notice>
  if (passing.length === 0) return <Notice tone="live">{t('tune.allRefused', { count: total })}</Notice>
  return (
    <Notice tone="warn" title={t('tune.someRefused', { refused, total })}>
      <ul>
        {passing.map((name) => (
          <li key={name}>{name}</li>
        ))}
      </ul>
    </Notice>
  )
}

function Save({ id, proposal, onClose }: { id: string; proposal: WafProposal; onClose: () => void }) {
  const { t } = useTranslation('waf')
  const queries = useQueryClient()
  const [note, setNote] = useState('')
  const save = useMutation({
    mutationFn: () =>
      answer(
        http.POST('/waf/alerts/{id}/exclude', {
          params: { path: { id } },
          body: { exclusions: proposal.exclusions, note },
        }),
      ),
    onSuccess: async ({ applied }) => {
      toastApplied(t('tune.saved', { count: proposal.exclusions.length }), applied)
      onClose()
      await renew(queries, wafConfigs.kind)
    },
  })
  return (
    <>
      <Textarea
        label={t('tune.note')}
        placeholder={t('tune.noteHint')}
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        maxLength={1000}
        autosize
        minRows={2}
      />
      {save.isError && <FaultNotice fault={save.error} />}
      <div className={classes.buttons}>
        <Button loading={save.isPending} disabled={!note.trim()} onClick={() => save.mutate()}>
          {t('tune.save', { count: proposal.exclusions.length })}
        </Button>
        <Button variant="default" onClick={onClose}>
          {t('common:cancel')}
        </Button>
      </div>
    </>
  )
}

import './texts'
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Answer, Intent } from '../../api/client'
import { toFault } from '../../api/fault'
import type { Reverted, RevertOptions } from '../../api/types'
import { FileDiffs } from '../../kit/change/Diff'
import { Impact } from '../../kit/change/Impact'
import { IntentLine } from '../../kit/change/IntentLine'
import { usualIntent } from '../../kit/change/intent'
import { fieldLabel } from '../../kit/change/kinds'
import { RowsView } from '../../kit/change/RowsView'
import { plannedDeed } from '../../kit/change/rows'
import { useTexts } from '../../kit/change/useTexts'
import { kindName } from '../../kit/change/words'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { toastApplied } from '../../kit/state/toast'
import { type Choices, Conflicts } from './Conflicts'
import { undecided } from './conflict-logic'
import classes from './History.module.css'

const previewKey = 'revert-preview'

/** Reverts, or previews a revert. */
export type Ask = (options: RevertOptions, intent?: Intent) => Promise<Answer<Reverted>>

interface RevertViewProps {
  /** What is reverted: part of the preview's query key. */
  of: readonly unknown[]
  ask: Ask
  onDone: () => void
}

/** Values that the gateway generates, which a revert cannot restore. */
function Stays({ rows }: { rows: Reverted['stays'] }) {
  const { t } = useTranslation('history')
  const ready = useTexts(rows.map(({ kind }) => kind))
  if (rows.length === 0 || !ready) return null
  return (
    <Notice tone="off" title={t('revert.stays')}>
      {rows.map(({ kind, id, name, fields }) => (
        <div key={`${kind} ${id}`}>
          {name} <span className="soft">{kindName(kind)}</span>:{' '}
          {fields.map((field) => fieldLabel(kind, field)).join(', ')}
        </div>
      ))}
    </Notice>
  )
}

/** The effect of a revert, its conflicts, and the button that runs it. */
export function RevertView({ of, ask, onDone }: RevertViewProps) {
  const { t } = useTranslation('history')
  const queries = useQueryClient()
  const [choices, setChoices] = useState<Choices>([])
  const [wanted, setIntent] = useState<Intent | null>(null)
  const query = useQuery({
    // Other changes do not refresh the preview: the user reverts what they have read, or the gateway refuses.
    queryKey: [previewKey, ...of, choices],
    queryFn: async () => (await ask({ preview: true, choices, partial: true })).value,
    placeholderData: (old) => old,
    retry: false,
    gcTime: 0,
  })
  const kinds = (query.data?.changes ?? []).map(({ kind }) => kind)
  const intent = wanted ?? usualIntent(...kinds)
  const revert = useMutation({
    mutationFn: ({ basis, unrestored }: Reverted) =>
      ask({ choices, basis, partial: unrestored.length > 0, reason: intent.reason }, intent),
    onSuccess: async ({ applied }) => {
      toastApplied(t('revert.done'), applied)
      onDone()
      // There is nothing left to preview.
      await queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== previewKey })
    },
    onError: (cause) => toFault(cause).code === 'stale' && query.refetch(),
  })
  return (
    <Loaded query={query} height={240}>
      {(plan) => {
        const open = undecided(plan.conflicts)
        return (
          <div className={classes.step}>
            {revert.isError &&
              (toFault(revert.error).code === 'stale' ? (
                <Notice tone="warn">{t('revert.stale')}</Notice>
              ) : (
                <FaultNotice fault={revert.error} />
              ))}
            <Conflicts text="revert" conflicts={plan.conflicts} choices={choices} onChoices={setChoices} />
            {plan.unrestored.length > 0 && (
              <Notice tone="warn" title={t('revert.unrestored')}>
                {plan.unrestored.map(({ kind, id, name, reason }) => (
                  <div key={`${kind} ${id}`}>
                    {name} <span className="soft">{kindName(kind)}</span>: {reason}
                  </div>
                ))}
              </Notice>
            )}
            <Stays rows={plan.stays} />
            <section className={classes.step} aria-label={t('revert.changes')}>
              <h3>{t('revert.changes')}</h3>
              {plan.changes.length === 0 && <p className="soft">{t('revert.noChanges')}</p>}
              <RowsView rows={plan.changes.map(plannedDeed)} planned />
            </section>
            <Impact areas={plan.impact} />
            {plan.files.length > 0 && (
              <section className={classes.step}>
                <h3>{t('set.files')}</h3>
                <FileDiffs files={plan.files} />
              </section>
            )}
            <IntentLine intent={intent} onIntent={setIntent} confirmable />
            <div className={classes.decision}>
              <Button
                loading={revert.isPending}
                disabled={open > 0 || plan.changes.length === 0 || query.isPlaceholderData}
                onClick={() => revert.mutate(plan)}
              >
                {t(plan.unrestored.length > 0 ? 'revert.verbRest' : 'revert.verb')}
              </Button>
              {open > 0 && <span className="soft">{t('revert.undecided', { count: open })}</span>}
            </div>
          </div>
        )
      }}
    </Loaded>
  )
}

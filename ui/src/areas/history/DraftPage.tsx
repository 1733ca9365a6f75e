import './texts'
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { answer, http, type Intent, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { useCanEdit } from '../../api/session'
import type { Draft, DraftOperation, DraftResult } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { FileDiffs } from '../../kit/change/Diff'
import { discardDraft, draftQuery, removeFromDraft } from '../../kit/change/draft'
import { Impact } from '../../kit/change/Impact'
import { IntentLine } from '../../kit/change/IntentLine'
import { usualIntent } from '../../kit/change/intent'
import { CutNotice, cuts, ownDraft } from '../../kit/change/own-connection'
import { RowsView } from '../../kit/change/RowsView'
import { deedOf } from '../../kit/change/rows'
import { kindName } from '../../kit/change/words'
import { Empty } from '../../kit/page/Empty'
import { Page, Panel } from '../../kit/page/Page'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { toast, toastApplied, toastFault } from '../../kit/state/toast'
import { type Choices, Conflicts } from './Conflicts'
import { undecided } from './conflict-logic'
import classes from './History.module.css'

const previewKey = 'draft-preview'

/** Changes collected on several pages, to be previewed and applied at once, or discarded. */
export default function DraftPage() {
  const { t } = useTranslation('history')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const query = useQuery({ ...draftQuery, enabled: canEdit })
  const discard = async (count: number) => {
    const yes = await confirm({
      title: t('draft.discardTitle'),
      text: t('draft.discardText', { count }),
      verb: t('draft.discardVerb'),
      danger: true,
      act: () => discardDraft(queries),
    })
    if (yes) toast('live', t('draft.discarded'))
  }
  const count = query.data?.operations.length ?? 0
  return (
    <Page
      title={t('draft.title')}
      lead={t('draft.lead')}
      actions={
        // A draft that cannot be read can be discarded, too.
        (count > 0 || query.isError) && (
          <Button variant="default" onClick={() => void discard(count)}>
            {t('draft.discard')}
          </Button>
        )
      }
    >
      {canEdit ? (
        <Loaded query={query} height={320}>
          {(draft) =>
            draft.operations.length === 0 ? (
              <Empty title={t('draft.emptyTitle')} text={t('draft.emptyText')} />
            ) : (
              <>
                <Collected operations={draft.operations} />
                <Effect draft={draft} />
              </>
            )
          }
        </Loaded>
      ) : (
        <Notice tone="off">{t('draft.viewer')}</Notice>
      )}
    </Page>
  )
}

/** What the draft does to each row. */
function Collected({ operations }: { operations: DraftOperation[] }) {
  const { t } = useTranslation('history')
  const queries = useQueryClient()
  return (
    <Panel title={t('draft.list')}>
      <RowsView
        rows={operations.map(deedOf)}
        planned
        beside={(row) => (
          <Button
            size="compact-xs"
            variant="default"
            aria-label={t('draft.removeOf', { name: row.name })}
            onClick={() => void removeFromDraft(queries, row).catch(toastFault)}
          >
            {t('draft.remove')}
          </Button>
        )}
      />
    </Panel>
  )
}

/** The draft's effect: whom it affects, its conflicts, and the button that applies it. */
function Effect({ draft }: { draft: Draft }) {
  const { t } = useTranslation('history')
  const queries = useQueryClient()
  const [choices, setChoices] = useState<Choices>([])
  const [wanted, setIntent] = useState<Intent | null>(null)
  const query = useQuery({
    // Other changes do not refresh the preview: the user applies what they have read, or the gateway refuses.
    queryKey: [previewKey, draft.version, choices],
    queryFn: () => unwrap(http.POST('/draft/preview', { body: { choices } })),
    placeholderData: (old) => old,
    retry: false,
    gcTime: 0,
  })
  const own = useQuery({
    queryKey: [previewKey, 'own connection', draft.version],
    queryFn: ownDraft,
    retry: false,
    gcTime: 0,
  })
  const kinds = draft.operations.map(({ kind }) => kind)
  const intent = wanted ?? usualIntent(...kinds)
  const apply = useMutation({
    mutationFn: ({ basis, version }: DraftResult) =>
      answer(
        http.POST('/draft/apply', {
          body: { choices, basis, version, reason: intent.reason, confirm_within: intent.within },
        }),
      ),
    onSuccess: async ({ applied }) => {
      toastApplied(t('draft.applied'), applied)
      // There is no draft left to preview.
      await queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== previewKey })
    },
    onError: async (cause) => {
      if (toFault(cause).code !== 'stale') return
      await queries.invalidateQueries(draftQuery)
      await query.refetch()
    },
  })
  return (
    <Panel title={t('draft.effect')}>
      <Loaded query={query} height={160}>
        {(plan) => {
          const open = undecided(plan.conflicts)
          return (
            <div className={classes.step}>
              {apply.isError &&
                (toFault(apply.error).code === 'stale' ? (
                  <Notice tone="warn">{t('draft.stale')}</Notice>
                ) : (
                  <FaultNotice fault={apply.error} />
                ))}
              <Conflicts text="draft" conflicts={plan.conflicts} choices={choices} onChoices={setChoices} />
              {plan.refused.length > 0 && (
                <Notice tone="bad" title={t('draft.refused')}>
                  {plan.refused.map(({ kind, id, name, reason }) => (
                    <div key={`${kind} ${id}`}>
                      {name} <span className="soft">{kindName(kind)}</span>: {reason}
                    </div>
                  ))}
                  {t('draft.refusedHelp')}
                </Notice>
              )}
              {plan.changes.length === 0 && open === 0 && plan.refused.length === 0 && (
                <p className="soft">{t('draft.same')}</p>
              )}
              {plan.impact.length === 0 && plan.changes.length > 0 && <p className="soft">{t('draft.noImpact')}</p>}
              {own.data && cuts(own.data) && <CutNotice answer={own.data} />}
              <Impact areas={plan.impact} />
              <IntentLine intent={intent} onIntent={setIntent} confirmable />
              <div className={classes.actions}>
                <Button
                  loading={apply.isPending}
                  disabled={open > 0 || plan.refused.length > 0 || query.isPlaceholderData}
                  onClick={() => apply.mutate(plan)}
                >
                  {t('draft.apply')}
                </Button>
                {open > 0 && <span className="soft">{t('revert.undecided', { count: open })}</span>}
              </div>
              {plan.files.length > 0 && (
                <section className={classes.step}>
                  <h3>{t('set.files')}</h3>
                  <FileDiffs files={plan.files} />
                </section>
              )}
            </div>
          )
        }}
      </Loaded>
    </Panel>
  )
}

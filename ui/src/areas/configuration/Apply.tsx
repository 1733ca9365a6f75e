import { Button, SegmentedControl, Switch } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Intent } from '../../api/client'
import { toFault } from '../../api/fault'
import { useCanEdit } from '../../api/session'
import type { Planned } from '../../api/types'
import { FileDiffs } from '../../kit/change/Diff'
import { Impact } from '../../kit/change/Impact'
import { IntentLine } from '../../kit/change/IntentLine'
import { usualIntent } from '../../kit/change/intent'
import { RowsView } from '../../kit/change/RowsView'
import { kindName } from '../../kit/change/words'
import { PemText } from '../../kit/form/PemText'
import { Panel } from '../../kit/page/Page'
import { FaultNotice } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { toastApplied } from '../../kit/state/toast'
import { count } from '../../kit/text/format'
import classes from './Configuration.module.css'
import { Import, type Imported, LeftOver } from './Import'
import { complaintsOf, deedOf, sumOf } from './plan'
import { applied, planned, type Source } from './resources'

const sources = ['document', 'haproxy', 'opnsense'] as const
/** With more changes than this, only their number is shown: no one reads them all. */
const mostRows = 200

/** A document, a preview of its changes, and the button that applies them. */
export function Apply({ opened }: { opened: string }) {
  const { t } = useTranslation('configuration')
  const [text, setText] = useState(opened)
  const [source, setSource] = useState<'document' | Source>('document')
  const [imported, setImported] = useState<Imported | null>(null)
  const mayImport = useCanEdit()
  const [prune, setPrune] = useState(false)
  const plan = useMutation({ mutationFn: () => planned(text, prune) })
  /** Someone else changed something before this could be applied, so the preview is a new one. */
  const [renewed, setRenewed] = useState(false)
  const preview = (again: boolean) => {
    setRenewed(again)
    plan.mutate()
  }
  const edited = (next: string) => {
    setText(next)
    plan.reset()
  }
  return (
    <Panel title={t('apply.title')}>
      <div className={classes.step}>
        <p className="soft">{t('apply.lead')}</p>
        {mayImport && (
          <SegmentedControl
            aria-label={t('apply.from')}
            className={classes.sources}
            data={sources.map((value) => ({ value, label: t(`source.${value}`) }))}
            value={source}
            onChange={(value) => setSource(value as typeof source)}
          />
        )}
        {source !== 'document' && (
          <Import
            key={source}
            from={source}
            onImported={(made) => {
              setImported(made)
              setSource('document')
              edited(made.document)
            }}
          />
        )}
        {source === 'document' && (
          <>
            {imported && <LeftOver imported={imported} />}
            <PemText
              label={t('apply.document.label')}
              description={t('apply.document.help')}
              accept=".yaml,.yml,.json,.txt"
              rows={16}
              value={text}
              onChange={edited}
            />
            <Switch
              label={t('apply.prune.label')}
              description={t('apply.prune.help')}
              checked={prune}
              onChange={(event) => {
                setPrune(event.currentTarget.checked)
                plan.reset()
              }}
            />
            <div>
              <Button
                variant="default"
                disabled={text.trim() === ''}
                loading={plan.isPending}
                onClick={() => preview(false)}
              >
                {t('apply.preview')}
              </Button>
            </div>
            {plan.isError && <Wrong fault={plan.error} />}
            {plan.isSuccess && renewed && <Notice tone="warn">{t('apply.stale')}</Notice>}
            {plan.isSuccess && (
              <Plan
                plan={plan.data}
                ask={(intent) => applied(text, prune, plan.data.basis, intent)}
                onStale={() => preview(true)}
                onDone={() => {
                  edited('')
                  setImported(null)
                }}
              />
            )}
          </>
        )}
      </div>
    </Panel>
  )
}

/** The errors in a document, by line. */
function Wrong({ fault }: { fault: unknown }) {
  const { t } = useTranslation('configuration')
  const complaints = complaintsOf(toFault(fault).details)
  if (complaints.length === 0) return <FaultNotice fault={fault} />
  return (
    <Notice tone="bad" title={t('plan.wrong')}>
      <ul className={classes.lines}>
        {complaints.map(({ kind, name, field, line, message }) => (
          <li key={`${kind} ${name} ${field} ${line} ${message}`}>
            {line > 0 && <span className="mono soft">{t('import.line', { line })}</span>} {kindName(kind)}{' '}
            <strong>{name}</strong> {field && <code>{field}</code>} {message}
          </li>
        ))}
      </ul>
    </Notice>
  )
}

interface PlanProps {
  plan: Planned
  ask: (intent: Intent) => ReturnType<typeof applied>
  onStale: () => void
  onDone: () => void
}

function Plan({ plan, ask, onStale, onDone }: PlanProps) {
  const { t } = useTranslation('configuration')
  const queries = useQueryClient()
  const mayChange = useCanEdit()
  const [wanted, setIntent] = useState<Intent | null>(null)
  const { changes, unchanged, files, impact, rehearsed } = plan
  const kinds = changes.map(({ kind }) => kind)
  const intent = wanted ?? usualIntent(...kinds)
  const apply = useMutation({
    mutationFn: () => ask(intent),
    onSuccess: async ({ applied }) => {
      toastApplied(t('apply.done'), applied)
      onDone()
      await queries.invalidateQueries()
    },
    onError: (cause) => toFault(cause).code === 'stale' && onStale(),
  })
  if (changes.length === 0) return <Notice tone="live">{t('plan.nothing')}</Notice>
  const sum = sumOf(changes)
  return (
    <section className={classes.step} aria-label={t('plan.title')}>
      <h3>{t('plan.title')}</h3>
      {apply.isError && <Wrong fault={apply.error} />}
      <p>
        {t('plan.sum', { create: count(sum.create), update: count(sum.update), delete: count(sum.delete) })}{' '}
        {t('plan.unchanged', { count: unchanged, formatted: count(unchanged) })}
      </p>
      {!rehearsed && <Notice tone="warn">{t('plan.unrehearsed')}</Notice>}
      <RowsView rows={changes.slice(0, mostRows).map(deedOf)} planned />
      {changes.length > mostRows && <p className="soft">{t('plan.more', { count: changes.length - mostRows })}</p>}
      <Impact areas={impact} />
      {mayChange && (
        <>
          <IntentLine intent={intent} onIntent={setIntent} confirmable />
          <div>
            <Button loading={apply.isPending} onClick={() => apply.mutate()}>
              {t('apply.verb')}
            </Button>
          </div>
        </>
      )}
      {files.length > 0 && (
        <>
          <h3>{t('plan.files')}</h3>
          <FileDiffs files={files} />
        </>
      )}
    </section>
  )
}

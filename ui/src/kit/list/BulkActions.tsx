import { Button } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import { useTranslation } from 'react-i18next'
import { changeSet, type Operation } from '../../api/resource'
import { confirm } from '../change/confirm'
import { addToDraft } from '../change/draft'
import { usualIntent } from '../change/intent'
import { type Guard, objectionTo, obstacleTo, Why } from '../change/remove'
import { renew } from '../change/renew'
import { rowsOf } from '../change/words'
import { Fold } from '../page/Fold'
import { toast, toastApplied } from '../state/toast'
import { count } from '../text/format'

const ChangePreview = lazy(() => import('../change/ChangePreview'))

/** The API's limit on operations in a change set. */
const most = 1000
/** How many rows to name; the rest are counted. */
const named = 5

type Deed = 'on' | 'off' | 'delete'

interface BulkActionsProps<F extends string> {
  kind: string
  rows: readonly ({ id: string; name: string } & Record<F, boolean>)[]
  /** The row's on/off field. */
  field: F
  /** Called before the change, and may object to it. */
  guard: Guard
  /** Clears the selection. */
  onDone: () => void
}

/** Turns rows on or off or deletes them, all in one change, after a question that names them. */
export function BulkActions<F extends string>({ kind, rows, field, guard, onDone }: BulkActionsProps<F>) {
  const { t } = useTranslation()
  const queries = useQueryClient()
  const concerned = (deed: Deed) => (deed === 'delete' ? rows : rows.filter((row) => row[field] !== (deed === 'on')))

  const ask = async (deed: Deed) => {
    const some = concerned(deed)
    const operations = some.map(
      ({ id }): Operation =>
        deed === 'delete'
          ? { kind, verb: 'delete', id }
          : { kind, verb: 'update', id, body: { [field]: deed === 'on' } },
    )
    const objection = await objectionTo(operations, guard)
    const intent = usualIntent(kind)
    const what = rowsOf(kind, some.length)
    const more = some.length - named
    const yes = await confirm({
      title: t(`bulk.${deed}.title`, { what }),
      text: (
        <>
          {objection}
          <p>
            {some
              .slice(0, named)
              .map(({ name }) => name)
              .join(', ')}
            {more > 0 && ` ${t('things.more', { count: more, number: count(more) })}`}
          </p>
          <Fold title={t('form.preview')}>
            <Suspense>
              <ChangePreview operations={operations} />
            </Suspense>
          </Fold>
          <Why usual={{ ...intent }} onIntent={(next) => Object.assign(intent, next)} />
        </>
      ),
      verb: t(`bulk.${deed}.verb`),
      danger: deed === 'delete' || Boolean(objection),
      obstacle: () => obstacleTo(operations),
      other: {
        verb: t('draft.add'),
        act: async () => {
          await addToDraft(queries, operations)
          toast('live', t('draft.added'), what)
        },
      },
      act: async () => {
        const { applied } = await changeSet(operations, intent)
        toastApplied(t(`bulk.${deed}.done`, { what }), applied)
        await renew(queries, kind)
      },
    })
    if (yes) onDone()
  }

  if (rows.length > most) return <span className="soft">{t('bulk.most', { count: most })}</span>
  return (
    <>
      {(['on', 'off', 'delete'] as const).map((deed) => (
        <Button
          key={deed}
          size="compact-sm"
          variant="default"
          color={deed === 'delete' ? 'red' : undefined}
          disabled={concerned(deed).length === 0}
          onClick={() => void ask(deed)}
        >
          {t(`bulk.${deed}.verb`)}
        </Button>
      ))}
      <Button size="compact-sm" variant="subtle" onClick={onDone}>
        {t('bulk.clear')}
      </Button>
    </>
  )
}

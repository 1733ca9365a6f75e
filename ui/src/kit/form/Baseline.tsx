import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, type RefObject, useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Answer, Intent } from '../../api/client'
import { toFault } from '../../api/fault'
import type { Past } from '../../api/resource'
import { Notice } from '../state/Notice'
import { Time } from '../text/Time'
import { differing, type Values } from './form-values'
import classes from './ResourceForm.module.css'

interface BaselineProps<T> {
  loaded: Answer<T>
  update: (body: Values, etag: string | null, changed: string[], intent: Intent) => Promise<Answer<T>>
  /** The form's values for a version. */
  read: (value: T) => Values
  /** The form's label of a field. */
  label: (field: string) => string
  /** Tells who made a version. */
  past?: { of: Past<unknown>; kind: string; id: string }
  children: (
    base: Answer<T>,
    form: {
      save: (body: Values, changed: string[], intent: Intent) => Promise<Answer<T>>
      onDirty: (dirty: boolean) => void
      /** The current values of the form. */
      typed: RefObject<Values>
      /** Unsaved values that are kept when a newer version is loaded. */
      carried: Values
    },
  ) => ReactNode
}

/**
 * Keeps the version that the form was opened with: its ETag goes with the save. If someone else changes the resource in
 * the meantime, the form says who, and what loading their version replaces; values of fields that they did not change
 * are kept. An untouched form updates automatically.
 */
export function Baseline<T>({ loaded, update, read, label, past, children }: BaselineProps<T>) {
  const [base, setBase] = useState(loaded)
  const [saving, setSaving] = useState(false)
  const [dirty, setDirty] = useState(false)
  const [seen, setSeen] = useState(loaded.etag)
  const [carried, setCarried] = useState<Values>({})
  /** How many saves were refused because of a newer version. */
  const [refused, setRefused] = useState(0)
  const typed = useRef<Values>({})
  const begin = (version: Answer<T>, carried: Values) => {
    setCarried(carried)
    setBase(version)
  }
  if (loaded.etag !== seen) {
    setSeen(loaded.etag)
    if (!dirty && !saving) begin(loaded, {})
  }

  const save = async (body: Values, changed: string[], intent: Intent) => {
    // The event of our own change may arrive before its answer.
    setSaving(true)
    try {
      const saved = await update(body, base.etag, changed, intent)
      begin(saved, {})
      return saved
    } catch (cause) {
      if (toFault(cause).code === 'stale') setRefused(refused + 1)
      throw cause
    } finally {
      setSaving(false)
    }
  }

  const start = read(base.value)
  const theirs = differing(start, read(loaded.value))
  return (
    <div key={base.etag}>
      {base.etag !== loaded.etag && !saving && (
        <Conflict
          theirs={theirs}
          mine={() => differing(start, typed.current)}
          label={label}
          past={past}
          refused={refused}
          onTake={() => {
            const kept = differing(start, typed.current).filter((name) => !theirs.includes(name))
            begin(loaded, Object.fromEntries(kept.map((name) => [name, typed.current[name]])))
          }}
        />
      )}
      {children(base, { save, onDirty: setDirty, typed, carried })}
    </div>
  )
}

interface ConflictProps extends Pick<BaselineProps<unknown>, 'label' | 'past'> {
  /** The fields that someone else changed, and those changed here. */
  theirs: string[]
  mine: () => string[]
  refused: number
  onTake: () => void
}

/** Who else changed it, when and what, and what loading that version replaces. */
function Conflict({ theirs, mine, label, past, refused, onTake }: ConflictProps) {
  const { t } = useTranslation()
  const notice = useRef<HTMLDivElement>(null)
  const entries = useQuery({
    queryKey: [past?.kind, past?.id, 'history'],
    queryFn: () => past?.of.entries(past.id) ?? [],
    enabled: past !== undefined,
  })
  const newest = entries.data?.[0]
  const names = (fields: string[]) => fields.map(label).join(', ')
  const lost = mine().filter((name) => theirs.includes(name))
  // A refused save scrolls to the reason; an event alone does not move the form while the user types.
  useEffect(() => {
    if (refused > 0) notice.current?.scrollIntoView({ block: 'center' })
  }, [refused])
  return (
    <div ref={notice} className={classes.notice}>
      <Notice
        tone="warn"
        title={t('form.changedTitle')}
        action={
          <Button size="compact-sm" variant="default" onClick={onTake}>
            {t('form.takeTheirs')}
          </Button>
        }
      >
        {newest && (
          <p>
            {t('form.changedBy', { who: newest.actor, fields: names(theirs) || '–' })} <Time at={newest.created_at} />
          </p>
        )}
        {lost.length > 0 ? t('form.changedLost', { fields: names(lost) }) : t('form.changedKept')}
      </Notice>
    </div>
  )
}

import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useBlocker } from '@tanstack/react-router'
import { Fragment, type KeyboardEvent, lazy, type ReactNode, Suspense, useEffect, useRef, useState } from 'react'
import { type UseFormReturn, useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import type { Answer } from '../api/client'
import { toFault } from '../api/fault'
import type { Extension, Operation, Resource, Singleton } from '../api/resource'
import { useCanEdit } from '../app/session'
import { confirm } from './confirm'
import { Field, type FieldSpec, isSecret, type Values } from './fields'
import { placeFault } from './form-errors'
import { Loaded } from './Loaded'
import { Notice } from './Notice'
import classes from './ResourceForm.module.css'
import { askToRemove, type Guard, objectionTo } from './remove'
import { renew } from './renew'
import { toast, toastApplied } from './toast'

const ChangePreview = lazy(() => import('./ChangePreview'))

interface FormProps {
  /** Where the texts of the fields are, such as `ntp:pool`. */
  text: string
  fields: FieldSpec[]
  onDone?: () => void
  /** False for what has no rendered files, such as accounts. */
  preview?: boolean
  /** What the button says, where that is not Save. */
  verb?: string
  /** What belongs to the caller, whom a viewer's role does not keep from changing it. */
  own?: boolean
  /** What stands under the form and depends on what it holds. */
  below?: (values: Values) => ReactNode
  /** How the form's values differ from those of the API, where they do. */
  shape?: { read: (row: Values) => Values; write: (values: Values) => Values }
  /** What fields are when the others say this, as long as nobody has written anything else into them. */
  follow?: (values: Values) => Values
  /** Asked before a save or a deletion; an objection is shown, and it takes a second word to go on. */
  guard?: Guard
}

/** A new resource. */
export function CreateForm<T>(
  props: FormProps & {
    resource: Pick<Resource<T>, 'kind' | 'create'>
    defaults: Values
    /** What is stored, where it is more than the one row. */
    operations?: (body: Values) => Operation[]
  },
) {
  const { resource, defaults } = props
  return (
    <FormBody
      {...props}
      fresh
      initial={defaults}
      save={resource.create}
      kind={resource.kind}
      operations={props.operations ?? ((body) => [{ kind: resource.kind, verb: 'create', body }])}
    />
  )
}

/** An existing resource, with its deletion if it has one. `name` says in words what would be deleted. */
export function EditForm<T extends object>(
  props: FormProps & {
    resource: Resource<T> | Extension<T>
    id: string
    name: (value: T) => string
    /** After a deletion; as after a save where it is not said. */
    onGone?: () => void
    /** Why this one cannot be deleted; undefined when it can. */
    keep?: (value: T) => string | undefined
    /** The fields of this one that stay as they are. */
    fixed?: (value: T) => readonly string[]
    /** What stands over the form, and what under it. */
    above?: (value: T) => ReactNode
    children?: (value: T) => ReactNode
  },
) {
  const { resource, id } = props
  const { t } = useTranslation()
  const queries = useQueryClient()
  // The news of our own deletion must not make us ask for what is gone.
  const [deleting, setDeleting] = useState(false)
  const query = useQuery({ queryKey: [resource.kind, id], queryFn: () => resource.read(id), enabled: !deleting })

  const remove = (resource: Resource<T>, loaded: Answer<T>) =>
    askToRemove({
      resource,
      id,
      etag: loaded.etag,
      name: props.name(loaded.value),
      text: t(`${props.text}.deleteText`),
      guard: props.guard,
      queries,
      onBusy: setDeleting,
    }).then((yes) => yes && (props.onGone ?? props.onDone)?.())

  return (
    <Loaded query={query} height={320}>
      {(loaded) => (
        <>
          {props.above?.(loaded.value)}
          <Baseline loaded={loaded} update={(body, etag, changed) => resource.update(id, body, etag, changed)}>
            {(base, form) => (
              <FormBody
                {...props}
                initial={base.value as Values}
                {...form}
                kind={resource.kind}
                operations={(body) => [{ kind: resource.kind, verb: 'update', id, body }]}
                remove={'remove' in resource ? () => remove(resource, base) : undefined}
                keep={props.keep?.(base.value)}
                fixed={props.fixed?.(base.value)}
              />
            )}
          </Baseline>
          {props.children?.(loaded.value)}
        </>
      )}
    </Loaded>
  )
}

/** The single row of a settings page. */
export function SettingsForm<T extends object>(props: FormProps & { singleton: Singleton<T> }) {
  const { singleton } = props
  const query = useQuery({ queryKey: [singleton.kind], queryFn: singleton.read })
  return (
    <Loaded query={query} height={320}>
      {(loaded) => (
        <Baseline loaded={loaded} update={singleton.update}>
          {(base, form) => (
            <FormBody
              {...props}
              initial={base.value as Values}
              {...form}
              kind={singleton.kind}
              operations={(body) => [
                { kind: singleton.kind, verb: 'update', id: (base.value as { id?: string }).id, body },
              ]}
            />
          )}
        </Baseline>
      )}
    </Loaded>
  )
}

interface BaselineProps<T> {
  loaded: Answer<T>
  update: (body: Values, etag: string | null, changed: string[]) => Promise<Answer<T>>
  children: (
    base: Answer<T>,
    form: { save: (body: Values, changed: string[]) => Promise<Answer<T>>; onDirty: (dirty: boolean) => void },
  ) => ReactNode
}

/**
 * Holds the version that the form was opened with: its ETag goes with the save. When somebody else
 * changes the resource meanwhile, the typed values stay and the form says so; a form that nobody has
 * touched follows.
 */
function Baseline<T>({ loaded, update, children }: BaselineProps<T>) {
  const { t } = useTranslation()
  const [base, setBase] = useState(loaded)
  const [saving, setSaving] = useState(false)
  const [dirty, setDirty] = useState(false)
  const [seen, setSeen] = useState(loaded.etag)
  if (loaded.etag !== seen) {
    setSeen(loaded.etag)
    if (!dirty && !saving) setBase(loaded)
  }

  const save = async (body: Values, changed: string[]) => {
    // The news of our own change may arrive before the answer to it.
    setSaving(true)
    try {
      const saved = await update(body, base.etag, changed)
      setBase(saved)
      return saved
    } finally {
      setSaving(false)
    }
  }

  return (
    <div key={base.etag}>
      {base.etag !== loaded.etag && !saving && (
        <div className={classes.notice}>
          <Notice
            tone="warn"
            title={t('form.changedTitle')}
            action={
              <Button size="compact-sm" variant="default" onClick={() => setBase(loaded)}>
                {t('form.takeTheirs')}
              </Button>
            }
          >
            {t('form.changedText')}
          </Notice>
        </div>
      )}
      {children(base, { save, onDirty: setDirty })}
    </div>
  )
}

interface BodyProps extends FormProps {
  kind: string
  initial: Values
  save: (body: Values, changed: string[]) => Promise<Answer<unknown>>
  operations: (body: Values) => Operation[]
  /** Nothing is stored yet: the values may be saved as they are. */
  fresh?: boolean
  onDirty?: (dirty: boolean) => void
  remove?: () => void
  keep?: string
  fixed?: readonly string[]
}

function FormBody({
  text,
  fields,
  kind,
  initial,
  fresh,
  save,
  operations,
  onDone,
  remove,
  keep,
  fixed = [],
  preview = true,
  verb,
  own = false,
  below,
  shape,
  follow,
  guard,
  onDirty,
}: BodyProps) {
  const { t } = useTranslation()
  const queries = useQueryClient()
  const canEdit = useCanEdit() || own
  const [problem, setProblem] = useState('')
  const [shown, setShown] = useState<Operation[] | null>(null)
  const names = fields.map((field) => field.name)
  const [objection, setObjection] = useState<{ to: string; text: ReactNode } | null>(null)
  /** Where the cursor was when the form was sent. */
  const left = useRef<HTMLElement | null>(null)
  const start = { ...pick(shape?.read(initial) ?? initial, names), ...emptySecrets(fields) }
  const form = useForm<Values>({ defaultValues: start })
  const { isDirty, isSubmitting } = form.formState
  useEffect(() => onDirty?.(isDirty), [isDirty, onDirty])
  const values = form.watch()
  useFollow(form, values, isDirty, follow)
  const shownFields = fields.filter((field) => field.when?.(values) ?? true)
  const covered = Object.fromEntries(fields.flatMap(({ name, covers = [] }) => covers.map((other) => [other, name])))

  const bodyOf = (all: Values) => {
    const body = pick(all, names)
    // The empty field of a secret means: keep the stored one.
    for (const field of fields) if (isSecret(field) && !body[field.name]) delete body[field.name]
    return shape?.write(body) ?? body
  }

  const store = async (all: Values, agreed: boolean) => {
    left.current = document.activeElement as HTMLElement | null
    setProblem('')
    setShown(null)
    const body = bodyOf(all)
    const text = agreed ? null : await objectionTo(operations(body), guard)
    setObjection(text ? { to: JSON.stringify(body), text } : null)
    if (text) return
    const changed = names.filter((name) => JSON.stringify(all[name]) !== JSON.stringify(start[name]))
    try {
      const { applied } = await save(body, changed)
      form.reset(all)
      toastApplied(t('form.saved'), applied)
      await renew(queries, kind)
      onDone?.()
    } catch (cause) {
      const fault = toFault(cause)
      if (fault.code === 'stale') await renew(queries, kind)
      else
        setProblem(
          placeFault(
            fault,
            shownFields.map(({ name }) => name),
            form.setError,
            covered,
          ),
        )
      toast('bad', t(fault.code === 'stale' ? 'form.stale' : 'form.notSaved'))
    }
  }
  const submit = form.handleSubmit((all) => store(all, false))

  // The fields are closed while they are stored, or what is typed meanwhile would be lost. After that the cursor is where it was,
  // or where something is wrong.
  const { errors } = form.formState
  useEffect(() => {
    if (isSubmitting || !left.current) return
    const wrong = names.find((name) => errors[name])
    if (wrong) form.setFocus(wrong)
    else if (document.activeElement === document.body) left.current.focus()
    left.current = null
  }, [isSubmitting, errors, form, names])

  useBlocker({
    disabled: !isDirty,
    enableBeforeUnload: isDirty,
    shouldBlockFn: async () =>
      form.formState.isDirty &&
      !(await confirm({ title: t('form.leaveTitle'), text: t('form.leaveText'), verb: t('form.leave'), danger: true })),
  })

  const saveByKey = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || !canEdit) return
    event.preventDefault()
    void submit()
  }

  return (
    <form onSubmit={submit} onKeyDown={saveByKey} noValidate className={classes.form}>
      {!canEdit && <Notice tone="off">{t('form.readOnly')}</Notice>}
      {problem && <Notice tone="bad">{problem}</Notice>}
      <fieldset disabled={!canEdit || isSubmitting} className={classes.fields}>
        {shownFields.map((field) => (
          <Fragment key={field.name}>
            {field.section && <h3 className={classes.section}>{t(`${text}.sections.${field.section}`)}</h3>}
            <Field
              spec={field}
              text={text}
              control={form.control}
              values={values}
              disabled={fixed.includes(field.name)}
              kept={isKept(field, initial)}
              autoFocus={fresh && field === fields.find(({ type }) => !chosen.includes(type))}
            />
          </Fragment>
        ))}
      </fieldset>
      {objection?.to === JSON.stringify(bodyOf(values)) && (
        <div className={classes.objection}>
          {objection.text}
          <Button color="red.8" loading={isSubmitting} onClick={form.handleSubmit((all) => store(all, true))}>
            {t('form.saveAnyway')}
          </Button>
        </div>
      )}
      {canEdit && (
        <div className={classes.actions}>
          <Button type="submit" loading={isSubmitting} disabled={!isDirty && !fresh} title={t('form.saveHint')}>
            {verb ?? t('form.save')}
          </Button>
          {preview && (
            <Button
              variant="default"
              disabled={!isDirty}
              onClick={form.handleSubmit((all) => setShown(operations(bodyOf(all))))}
            >
              {t('form.preview')}
            </Button>
          )}
          {remove && (
            <Button
              variant="subtle"
              color="red"
              className={classes.remove}
              onClick={remove}
              disabled={!!keep}
              title={keep}
            >
              {t('delete.verb')}
            </Button>
          )}
        </div>
      )}
      {below?.(bodyOf(values))}
      {keep && <p className={classes.keep}>{keep}</p>}
      {shown && (
        <Suspense>
          <ChangePreview operations={shown} />
        </Suspense>
      )}
    </form>
  )
}

/** Keeps what nobody has touched in step with the rest: a field that still has what it followed to follows on. */
function useFollow(form: UseFormReturn<Values>, values: Values, touched: boolean, follow: FormProps['follow']) {
  const last = useRef<Values | null>(null)
  useEffect(() => {
    if (!follow) return
    const next = follow(values)
    const same = (name: string, value: unknown) => JSON.stringify(values[name]) === JSON.stringify(value)
    for (const [name, value] of Object.entries((touched && last.current) || {})) {
      if (same(name, value) && !same(name, next[name])) form.setValue(name, next[name], { shouldDirty: true })
    }
    last.current = next
  }, [form, values, touched, follow])
}

/** Fields that the cursor does not start in: there is nothing to type, and a list would open by itself. */
const chosen: FieldSpec['type'][] = ['choice', 'segments', 'select']

/** Whether there is a secret that an empty field keeps; undefined where there cannot be one. */
function isKept({ configured }: FieldSpec, row: Values): boolean | undefined {
  if (!configured) return undefined
  return typeof configured === 'string' ? Boolean(row[configured]) : configured(row)
}

function pick(values: Values, names: string[]): Values {
  return Object.fromEntries(names.map((name) => [name, values[name]]))
}

/** A secret is never shown: its field begins empty. */
function emptySecrets(fields: FieldSpec[]): Values {
  return Object.fromEntries(fields.filter(isSecret).map(({ name }) => [name, '']))
}

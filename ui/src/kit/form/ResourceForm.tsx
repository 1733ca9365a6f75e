import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useBlocker } from '@tanstack/react-router'
import {
  Fragment,
  type KeyboardEvent,
  lazy,
  type ReactNode,
  type RefObject,
  Suspense,
  type SyntheticEvent,
  useContext,
  useEffect,
  useRef,
  useState,
} from 'react'
import { type UseFormReturn, useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import type { Answer, Intent } from '../../api/client'
import { type Fault, toFault } from '../../api/fault'
import type { Extension, Kind, Operation, Resource, Singleton } from '../../api/resource'
import { useCanEdit } from '../../api/session'
import type { DraftOperation } from '../../api/types'
import { confirm } from '../change/confirm'
import { addToDraft, useDrafted, useDraftedRow } from '../change/draft'
import { IntentLine } from '../change/IntentLine'
import { usualIntent } from '../change/intent'
import { askToRemove, type Guard, objectionTo } from '../change/remove'
import { renew } from '../change/renew'
import { Fold } from '../page/Fold'
import { Facts } from '../page/Page'
import { Loaded } from '../state/Loaded'
import { Notice } from '../state/Notice'
import { toast, toastApplied } from '../state/toast'
import { Baseline } from './Baseline'
import { DraftNotice } from './DraftNotice'
import { EnterAgainNotice, lostFields } from './EnterAgain'
import { FieldText } from './FieldText'
import { Field, type FieldSpec, isSecret, type Values } from './fields'
import { placeFault } from './form-errors'
import { differing } from './form-values'
import { known, startOfNew } from './known'
import classes from './ResourceForm.module.css'
import { RowHistoryContext, type RowHistoryProps } from './row-history'

const ChangePreview = lazy(() => import('../change/ChangePreview'))

interface FormProps {
  /** Where the texts of the fields are, such as `ntp:pool`. */
  text: string
  fields: FieldSpec[]
  /** Called with the gateway's answer. */
  onDone?: (saved: unknown) => void
  /** False for rows without rendered files, such as accounts. */
  preview?: boolean
  /** The label of the button, if not Save. */
  verb?: string
  /** It belongs to the user, so viewers may change it, too. */
  own?: boolean
  /** Shown below the form; depends on its values. */
  below?: (values: Values) => ReactNode
  /** Converts between the form's values and the API's, if they differ. */
  shape?: { read: (row: Values) => Values; write: (values: Values) => Values }
  /** Defaults that depend on other fields. They apply until the user edits the field. */
  follow?: (values: Values) => Values
  /** Called before a save or a deletion. An objection is shown, and the user must agree to go on. */
  guard?: Guard
}

/** The form for a new resource. */
export function CreateForm<T>(
  props: FormProps & {
    resource: Pick<Resource<T>, 'kind' | 'create'> & Partial<Pick<Resource<unknown>, 'past'>>
    /** Initial values that differ from the API's defaults. */
    defaults?: Values
    /** What to store, if it is more than one row. The gateway may have to be asked. */
    operations?: (body: Values) => Operation[] | Promise<Operation[]>
  },
) {
  const { resource, defaults } = props
  return (
    <FormBody
      {...props}
      fresh
      initial={{ ...startOfNew(resource.kind, props.fields), ...defaults }}
      save={(body, _, intent) => resource.create(body, intent)}
      kind={resource.kind}
      kept={Boolean(resource.past)}
      operations={props.operations ?? ((body) => [{ kind: resource.kind, verb: 'create', body }])}
    />
  )
}

/** The form for an existing resource, with its deletion if it has one. `name` names it in the question. */
export function EditForm<T extends object>(
  props: FormProps & {
    resource: Resource<T> | Extension<T>
    id: string
    name: (value: T) => string
    /** Called after a deletion; by default onDone. */
    onGone?: (saved?: unknown) => void
    /** Why it cannot be deleted; undefined if it can. */
    keep?: (value: T) => string | undefined
    /** The fields that cannot be changed. */
    fixed?: (value: T) => readonly string[]
    /** Shown above and below the form. */
    above?: (value: T) => ReactNode
    children?: (value: T) => ReactNode
  },
) {
  const { resource, id } = props
  const { t } = useTranslation()
  const queries = useQueryClient()
  // The event of our own deletion must not reload the deleted row.
  const [deleting, setDeleting] = useState(false)
  const drafted = useDraftedRow(resource.kind, id)
  const fresh = drafted?.verb === 'create'
  const query = useQuery({
    queryKey: [resource.kind, id],
    queryFn: () => resource.read(id),
    enabled: !deleting && !fresh,
  })

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
    }).then((yes) => yes && (props.onGone ?? props.onDone)?.(undefined))

  const operations = (body: Values): Operation[] => [{ kind: resource.kind, verb: 'update', id, body }]
  if (fresh) {
    const value = drafted.after as T
    return (
      <>
        <DraftNotice row={drafted} onRemoved={props.onGone ?? props.onDone} />
        <FormBody
          {...props}
          key={JSON.stringify(value)}
          initial={value as Values}
          kind={resource.kind}
          kept
          operations={operations}
          preview={false}
          keep={undefined}
          fixed={props.fixed?.(value)}
        />
      </>
    )
  }
  return (
    <Loaded query={query} height={320}>
      {(loaded) => {
        const begin = withDraft(loaded, drafted)
        return (
          <>
            {props.above?.(loaded.value)}
            {drafted && <DraftNotice row={drafted} />}
            <EnterAgainNotice row={loaded.value} {...props} />
            <Baseline
              key={begin.key}
              loaded={begin.loaded}
              update={(body, etag, changed, intent) => resource.update(id, body, etag, changed, intent)}
              read={(value) => startOf(props, value as Values)}
              label={(field) => t(`${props.text}.${field}.label`)}
              past={{ of: resource.past, kind: resource.kind, id }}
            >
              {(base, form) => (
                <FormBody
                  {...props}
                  initial={base.value as Values}
                  {...form}
                  kind={resource.kind}
                  kept
                  operations={operations}
                  remove={'remove' in resource ? () => remove(resource, base) : undefined}
                  keep={props.keep?.(base.value)}
                  fixed={props.fixed?.(base.value)}
                />
              )}
            </Baseline>
            {props.children?.(loaded.value)}
            <PastOf kind={resource.kind} id={id} past={resource.past} />
          </>
        )
      }}
    </Loaded>
  )
}

/** The initial values: the stored row with the draft's changes. Another draft makes another form. */
function withDraft<T extends object>(loaded: Answer<T>, drafted: DraftOperation | undefined) {
  if (drafted?.verb !== 'update') return { key: '', loaded }
  const changed = Object.keys(drafted.fields).map((field) => [field, (drafted.after as Values)[field]])
  return {
    key: JSON.stringify(changed),
    loaded: { ...loaded, value: { ...loaded.value, ...Object.fromEntries(changed) } },
  }
}

/** The form of a settings page, which has a single row. */
export function SettingsForm<T extends object>(props: FormProps & { singleton: Singleton<T> }) {
  const { singleton } = props
  const { t } = useTranslation()
  const query = useQuery({ queryKey: [singleton.kind], queryFn: singleton.read })
  const drafted = useDrafted().find(({ kind }) => kind === singleton.kind)
  return (
    <Loaded query={query} height={320}>
      {(loaded) => {
        const begin = withDraft(loaded, drafted)
        return (
          <>
            {drafted && <DraftNotice row={drafted} />}
            <EnterAgainNotice row={loaded.value} {...props} />
            <Baseline
              key={begin.key}
              loaded={begin.loaded}
              update={singleton.update}
              read={(value) => startOf(props, value as Values)}
              label={(field) => t(`${props.text}.${field}.label`)}
              past={
                singleton.past && { of: singleton.past, kind: singleton.kind, id: (loaded.value as { id: string }).id }
              }
            >
              {(base, form) => (
                <FormBody
                  {...props}
                  initial={base.value as Values}
                  {...form}
                  kind={singleton.kind}
                  kept={Boolean(singleton.past)}
                  operations={(body) => [
                    { kind: singleton.kind, verb: 'update', id: (base.value as { id?: string }).id, body },
                  ]}
                />
              )}
            </Baseline>
            {singleton.past && (
              <PastOf kind={singleton.kind} id={(loaded.value as { id: string }).id} past={singleton.past} />
            )}
          </>
        )
      }}
    </Loaded>
  )
}

/** The history of a row, on request. */
function PastOf(props: RowHistoryProps) {
  const { t } = useTranslation()
  const RowHistory = useContext(RowHistoryContext)
  if (!RowHistory) return null
  return (
    <div className={classes.past}>
      <Fold title={t('form.history')}>
        <Suspense>
          <RowHistory {...props} />
        </Suspense>
      </Fold>
    </div>
  )
}

/** What to do with the form's values. */
type Deed = 'save' | 'draft'

interface BodyProps extends FormProps {
  kind: string
  initial: Values
  /** Missing if the row is only in the draft, so that there is nothing to save. */
  save?: (body: Values, changed: string[], intent: Intent) => Promise<Answer<unknown>>
  operations: (body: Values) => Operation[] | Promise<Operation[]>
  /** The history covers this kind: a reason can be given, and the change can be confirmed. */
  kept?: boolean
  /** Nothing is stored yet, so unchanged values can be saved. */
  fresh?: boolean
  onDirty?: (dirty: boolean) => void
  typed?: RefObject<Values>
  carried?: Values
  remove?: () => void
  keep?: string
  fixed?: readonly string[]
}

function FormBody({
  text,
  fields: listed,
  kind,
  initial,
  fresh,
  kept = false,
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
  typed,
  carried,
}: BodyProps) {
  const { t } = useTranslation()
  const queries = useQueryClient()
  const canEdit = useCanEdit() || own
  const [problem, setProblem] = useState('')
  const [intent, setIntent] = useState(() => usualIntent(kind))
  const [shown, setShown] = useState<Operation[] | null>(null)
  // Rows without a kind in the API, such as a license, have forms of their own.
  const fields = known(kind as Kind, listed)
  const names = fields.map((field) => field.name)
  const [objection, setObjection] = useState<{ to: string; text: ReactNode; deed: Deed } | null>(null)
  const [busy, setBusy] = useState<Deed | null>(null)
  /** What had the focus when the form was submitted. */
  const left = useRef<HTMLElement | null>(null)
  const start = startOf({ fields, shape }, initial)
  const form = useForm<Values>({ defaultValues: start })
  const { isDirty, isSubmitting } = form.formState
  useEffect(() => onDirty?.(isDirty), [isDirty, onDirty])
  const values = form.watch()
  useEffect(() => {
    if (typed) typed.current = values
  }, [typed, values])
  useEffect(() => {
    for (const [name, value] of Object.entries(carried ?? {})) form.setValue(name, value, { shouldDirty: true })
  }, [form, carried])
  useFollow(form, values, isDirty, follow)
  const shownFields = fields.filter((field) => field.when?.(values, initial) ?? true)
  const covered = Object.fromEntries(fields.flatMap(({ name, covers = [] }) => covers.map((other) => [other, name])))

  const bodyOf = (all: Values) => {
    const body = pick(all, names)
    // An empty secret field keeps the stored secret.
    for (const field of fields) if (isSecret(field) && !body[field.name]) delete body[field.name]
    return shape?.write(body) ?? body
  }

  /** Saves the form's values, or adds them to the draft. */
  const deeds: Record<Deed, (body: Values, changed: string[]) => Promise<unknown>> = {
    save: async (body, changed) => {
      const saved = await save?.(body, changed, intent)
      toastApplied(t('form.saved'), saved?.applied ?? [])
      return saved?.value
    },
    draft: async (body) => {
      await addToDraft(queries, await operations(body))
      toast('live', t('draft.added'))
      return undefined
    },
  }

  /** Shows the gateway's errors at their fields. */
  const place = (fault: Fault) => {
    const names = shownFields.map(({ name }) => name)
    setProblem(placeFault(fault, names, form.setError, covered))
  }

  const store = async (all: Values, deed: Deed, agreed: boolean) => {
    left.current = document.activeElement as HTMLElement | null
    setProblem('')
    setShown(null)
    const body = bodyOf(all)
    setBusy(deed)
    try {
      const text = agreed || !guard ? null : await objectionTo(await operations(body), guard)
      setObjection(text ? { to: JSON.stringify(body), text, deed } : null)
      if (text) return setBusy(null)
      const value = await deeds[deed](body, differing(start, all))
      form.reset(all)
      await renew(queries, kind)
      onDone?.(value)
    } catch (cause) {
      const fault = toFault(cause)
      if (fault.code === 'stale') {
        await renew(queries, kind)
        toast('bad', t(deed === 'draft' ? 'draft.notAdded' : 'form.stale'))
      } else place(fault)
    }
    setBusy(null)
  }
  const put = (parts: Values) => {
    for (const [name, value] of Object.entries(parts)) form.setValue(name, value, { shouldDirty: true })
  }
  // Ctrl+Enter submits without leaving the field, so split its text now.
  const settle = () => {
    for (const { name, split } of fields) put(split?.(String(form.getValues(name) ?? '')) ?? {})
  }
  const checked = (then: (all: Values) => unknown) => (event?: SyntheticEvent) => {
    settle()
    return form.handleSubmit(then)(event)
  }
  const show = async (all: Values) => {
    setProblem('')
    try {
      setShown(await operations(bodyOf(all)))
    } catch (cause) {
      place(toFault(cause))
    }
  }
  const usual: Deed = save ? 'save' : 'draft'
  const does = (deed: Deed, agreed = false) => checked((all) => store(all, deed, agreed))
  const submit = does(usual)

  // Fields are disabled while saving, because later input would be lost. Afterwards the focus returns to where it was,
  // or goes to an error.
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
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    void submit()
  }

  if (!canEdit) {
    return (
      <div className={classes.form}>
        <Facts
          facts={shownFields.map((field) => [
            t(`${text}.${field.name}.label`),
            <FieldText
              key={field.name}
              spec={field}
              text={text}
              value={values[field.name]}
              kept={isKept(field, initial, fields)}
            />,
          ])}
        />
        {below?.(bodyOf(values))}
      </div>
    )
  }

  return (
    <form onSubmit={submit} onKeyDown={saveByKey} noValidate className={classes.form}>
      {problem && (
        <div ref={intoView}>
          <Notice tone="bad">{problem}</Notice>
        </div>
      )}
      <fieldset disabled={isSubmitting} className={classes.fields}>
        {shownFields.map((field) => (
          <Fragment key={field.name}>
            {field.section && <h3 className={classes.section}>{t(`${text}.sections.${field.section}`)}</h3>}
            <Field
              spec={field}
              text={text}
              control={form.control}
              values={values}
              disabled={fixed.includes(field.name)}
              kept={isKept(field, initial, fields)}
              onSplit={put}
              autoFocus={fresh && field === fields.find(({ type }) => !chosen.includes(type))}
            />
          </Fragment>
        ))}
      </fieldset>
      {objection?.to === JSON.stringify(bodyOf(values)) && (
        <div ref={intoView} className={classes.objection}>
          {objection.text}
          <Button color="red.8" loading={isSubmitting} onClick={does(objection.deed, true)}>
            {t(objection.deed === 'draft' ? 'draft.addAnyway' : 'form.saveAnyway')}
          </Button>
        </div>
      )}
      {kept && save && <IntentLine intent={intent} onIntent={setIntent} confirmable={preview} />}
      {below?.(bodyOf(values))}
      {keep && <p className={classes.keep}>{keep}</p>}
      {shown && (
        <Suspense>
          <ChangePreview operations={shown} />
        </Suspense>
      )}
      <div className={classes.actions}>
        {save && (
          <Button
            type="submit"
            loading={isSubmitting && busy !== 'draft'}
            disabled={!isDirty && !fresh}
            title={t('form.saveHint')}
          >
            {verb ?? t('form.save')}
          </Button>
        )}
        {kept && !own && (
          <Button
            variant={save ? 'default' : 'filled'}
            type={save ? 'button' : 'submit'}
            loading={busy === 'draft'}
            disabled={(!isDirty && !fresh) || busy === 'save'}
            title={t('draft.addHint')}
            onClick={save && does('draft')}
          >
            {t('draft.add')}
          </Button>
        )}
        {preview && (
          <Button variant="default" disabled={!isDirty && !fresh} onClick={checked(show)}>
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
    </form>
  )
}

/** Updates fields that depend on others, unless the user has edited them. */
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

/** Fields that do not get the initial focus: there is nothing to type, and a list would open. */
const chosen: FieldSpec['type'][] = ['choice', 'segments', 'select']

/** Whether an empty field keeps a stored secret; undefined for fields that cannot have one. */
function isKept({ name, configured }: FieldSpec, row: Values, fields: FieldSpec[]): boolean | undefined {
  if (!configured) return undefined
  if (lostFields(row, fields).includes(name)) return false
  return typeof configured === 'string' ? Boolean(row[configured]) : configured(row)
}

const intoView = (element: HTMLElement | null) => element?.scrollIntoView({ block: 'center' })

/** The initial values of a form. Secrets are never shown: their fields start empty. */
function startOf({ fields, shape }: Pick<FormProps, 'fields' | 'shape'>, row: Values): Values {
  const names = fields.map(({ name }) => name)
  const secrets = fields.filter(isSecret).map(({ name }) => [name, ''])
  return { ...pick(shape?.read(row) ?? row, names), ...Object.fromEntries(secrets) }
}

function pick(values: Values, names: string[]): Values {
  return Object.fromEntries(names.map((name) => [name, values[name]]))
}

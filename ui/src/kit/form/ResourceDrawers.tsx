import { useQuery } from '@tanstack/react-query'
import { Navigate, useNavigate, useParams } from '@tanstack/react-router'
import { type ComponentProps, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Answer } from '../../api/client'
import type { Thing } from '../../api/fault'
import { useCanEdit } from '../../api/session'
import { DetailDrawer } from '../page/DetailDrawer'
import { Notice } from '../state/Notice'
import { ThingLink } from '../text/ThingLink'
import { CreateForm, EditForm } from './ResourceForm'

/** Where the list is that a drawer belongs to. What it is about is at `<text>.new` or `<text>.edit`. */
type Beside<P> = Omit<P, 'onDone' | 'id'> & { list: string; wide?: boolean }

type NewProps<T> = Beside<ComponentProps<typeof CreateForm<T>>> & {
  /** The rows that were made, where the form is not that of one of them: links to them are shown before the drawer closes. */
  pieces?: (saved: T) => Thing[]
}

/** The form of a new row, beside its list. Who cannot make one sees the list. */
export function CreateDrawer<T>({ list, wide, pieces, ...form }: NewProps<T>) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const [made, setMade] = useState<Thing[] | null>(null)
  // What was added to the draft is not made yet.
  const onDone = (saved: unknown) => (pieces && saved ? setMade(pieces(saved as T)) : void navigate({ to: list }))
  if (!useCanEdit() && !form.own) return <Navigate to={list} />
  return (
    <DetailDrawer title={t(`${form.text}.new`)} back={list} wide={wide}>
      {made ? (
        <>
          <Notice tone="live">{t(`${form.text}.done`)}</Notice>
          <ul aria-label={t('pieces')}>
            {made.map((thing) => (
              <li key={thing.id}>
                <ThingLink thing={thing} />
              </li>
            ))}
          </ul>
        </>
      ) : (
        <CreateForm {...form} onDone={onDone} />
      )}
    </DetailDrawer>
  )
}

/** The form of the row that the address names, beside its list. `of` is the row where the address names it by another word than id. */
export function EditDrawer<T extends object>(props: Beside<ComponentProps<typeof EditForm<T>>> & { of?: string }) {
  const { list, wide, of, ...form } = props
  const { t } = useTranslation()
  const navigate = useNavigate()
  const named = useParams({ strict: false }) as { id: string }
  const id = of ?? named.id
  // The form loads it.
  const { data } = useQuery<Answer<T>>({ queryKey: [form.resource.kind, id], enabled: false })
  const kind = t(`${form.text}.edit`)
  return (
    <DetailDrawer title={data ? form.name(data.value) : kind} kind={data && kind} back={list} wide={wide}>
      <EditForm key={id} {...form} id={id} onDone={() => navigate({ to: list, search: true } as never)} />
    </DetailDrawer>
  )
}

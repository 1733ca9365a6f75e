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

/** `list` is the path of the list that a drawer belongs to. The title is at `<text>.new` or `<text>.edit`. */
type Beside<P> = Omit<P, 'onDone' | 'id'> & { list: string; wide?: boolean }

type NewProps<T> = Beside<ComponentProps<typeof CreateForm<T>>> & {
  /** The rows that were created, if there are several: the drawer links to them before it closes. */
  pieces?: (saved: T) => Thing[]
}

/** The form for a new row, beside its list. A user who cannot edit gets the list alone. */
export function CreateDrawer<T>({ list, wide, pieces, ...form }: NewProps<T>) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const [made, setMade] = useState<Thing[] | null>(null)
  // Rows that were added to the draft do not exist yet.
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

/** The form for the row in the address bar, beside its list. `of` is its id, if the parameter is not called id. */
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

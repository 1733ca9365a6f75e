import { useNavigate, useParams } from '@tanstack/react-router'
import type { ComponentProps } from 'react'
import { useTranslation } from 'react-i18next'
import { DetailDrawer } from './DetailDrawer'
import { CreateForm, EditForm } from './ResourceForm'

/** Where the list is that a drawer belongs to. Its title stands at `<text>.new` or `<text>.edit`. */
type Beside<P> = Omit<P, 'onDone' | 'id'> & { list: string; wide?: boolean }

/** The form of a new row, beside its list. */
export function CreateDrawer<T>({ list, wide, ...form }: Beside<ComponentProps<typeof CreateForm<T>>>) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  return (
    <DetailDrawer title={t(`${form.text}.new`)} back={list} wide={wide}>
      <CreateForm {...form} onDone={() => navigate({ to: list })} />
    </DetailDrawer>
  )
}

/** The form of the row that the address names, beside its list. */
export function EditDrawer<T extends object>({ list, wide, ...form }: Beside<ComponentProps<typeof EditForm<T>>>) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id } = useParams({ strict: false }) as { id: string }
  return (
    <DetailDrawer title={t(`${form.text}.edit`)} back={list} wide={wide}>
      <EditForm key={id} {...form} id={id} onDone={() => navigate({ to: list, search: true } as never)} />
    </DetailDrawer>
  )
}

import { Button } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Resource } from '../../api/resource'
import { useCanEdit } from '../../api/session'
import type { Guard } from '../change/remove'
import type { FieldSpec, Values } from '../form/fields'
import { CreateForm, EditForm } from '../form/ResourceForm'
import { type Column, DataTable } from './DataTable'
import classes from './SubList.module.css'

interface SubListProps<T> {
  resource: Resource<T>
  rows: readonly T[]
  /** Where its texts are: title, none, create, new, edit, and those of the fields. */
  text: string
  columns: Column<T>[]
  fields: FieldSpec[]
  defaults?: Values
  shape: { read: (row: Values) => Values; write: (values: Values) => Values }
  name: (row: T) => string
  guard?: Guard
  /** Shown between the title and the rows. */
  children?: ReactNode
}

const intoField = (element: HTMLElement | null) => element?.querySelector<HTMLElement>('input, textarea')?.focus()

/** The rows that belong to one thing, in its drawer: shown, added, changed and removed in place. */
export function SubList<T extends { id: string }>(props: SubListProps<T>) {
  const { resource, rows, text, columns, defaults, name, children } = props
  const { t } = useTranslation()
  const canEdit = useCanEdit()
  const [open, setOpen] = useState<string | null>(null)
  const form = { text, fields: props.fields, shape: props.shape, guard: props.guard, onDone: () => setOpen(null) }
  const edited = rows.find(({ id }) => id === open)
  const edit: Column<T> = {
    key: 'edit',
    header: '',
    width: '52px',
    align: 'right',
    cell: (row) => (
      <Button
        size="compact-xs"
        variant="default"
        aria-label={t('sub.editOf', { name: name(row) })}
        aria-expanded={open === row.id}
        onClick={() => setOpen(open === row.id ? null : row.id)}
      >
        {t('sub.edit')}
      </Button>
    ),
  }
  return (
    <section className={classes.sub} aria-label={t(`${text}.title`)}>
      <header>
        <h3>{t(`${text}.title`)}</h3>
        {canEdit && open !== 'new' && (
          <Button
            size="compact-sm"
            variant="default"
            leftSection={<IconPlus size={14} aria-hidden />}
            onClick={() => setOpen('new')}
          >
            {t(`${text}.create`)}
          </Button>
        )}
      </header>
      {children}
      {rows.length === 0 ? (
        <p className="soft">{t(`${text}.none`)}</p>
      ) : (
        <div className={classes.rows}>
          <DataTable
            label={t(`${text}.title`)}
            columns={canEdit ? [...columns, edit] : columns}
            rows={rows}
            rowKey={(row) => row.id}
          />
        </div>
      )}
      {(open === 'new' || edited) && (
        <div className={classes.form}>
          <header>
            <h4>{edited ? t(`${text}.edit`, { name: name(edited) }) : t(`${text}.new`)}</h4>
            <Button size="compact-sm" variant="subtle" onClick={() => setOpen(null)}>
              {t('cancel')}
            </Button>
          </header>
          {edited ? (
            <EditForm key={edited.id} {...form} resource={resource} id={edited.id} name={name} />
          ) : (
            <div ref={intoField}>
              <CreateForm {...form} resource={resource} defaults={defaults} />
            </div>
          )}
        </div>
      )}
    </section>
  )
}

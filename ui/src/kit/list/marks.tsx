import { IconMinus, IconPencil, IconPlus } from '@tabler/icons-react'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { DraftOperation } from '../../api/types'
import { useDrafted } from '../change/draft'
import { Badge } from '../state/StateBadge'
import type { Column } from './DataTable'
import classes from './marks.module.css'

const icons = { create: IconPlus, update: IconPencil, delete: IconMinus }

/** What the draft does to a row. */
function DraftBadge({ verb }: Pick<DraftOperation, 'verb'>) {
  const { t } = useTranslation()
  return (
    <Badge tone="warn" icon={icons[verb]}>
      {t(`draft.badges.${verb}`)}
    </Badge>
  )
}

/** Marks rows that the draft changes. A row that is not stored yet can be opened, but nothing else. */
export function useDraftMarks<R extends { id: string }>(kind: string, columns: Column<R>[]): Column<R>[] {
  const drafted = useDrafted()
  return useMemo(() => {
    const marks = new Map(drafted.filter((one) => one.kind === kind).map(({ id, verb }) => [id, verb]))
    if (marks.size === 0) return columns
    const main = columns.find((column) => column.main) ?? columns[0]
    return columns.map((column) => ({
      ...column,
      cell: (row: R) => {
        const verb = marks.get(row.id)
        if (!verb) return column.cell(row)
        if (column !== main) return <span inert={verb === 'create'}>{column.cell(row)}</span>
        return (
          <span className={classes.marked}>
            {column.cell(row)} <DraftBadge verb={verb} />
          </span>
        )
      },
    }))
  }, [drafted, kind, columns])
}

/** Marks rows whose secrets must be entered again. */
export function useSecretMarks<R>(columns: Column<R>[]): Column<R>[] {
  const { t } = useTranslation()
  return useMemo(() => {
    const main = columns.find((column) => column.main) ?? columns[0]
    return columns.map((column) => {
      if (column !== main) return column
      const cell = (row: R) =>
        ((row as { enter_again?: string[] }).enter_again ?? []).length === 0 ? (
          column.cell(row)
        ) : (
          <span className={classes.marked}>
            {column.cell(row)} <Badge tone="bad">{t('secret.again')}</Badge>
          </span>
        )
      return { ...column, cell }
    })
  }, [columns, t])
}

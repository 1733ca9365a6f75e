import { Button } from '@mantine/core'
import { IconMinus, IconPencil, IconPlus } from '@tabler/icons-react'
import { useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { DraftOperation } from '../api/types'
import { paths } from '../app/paths'
import type { Column } from './DataTable'
import classes from './DraftMark.module.css'
import { removeFromDraft, useDrafted } from './draft'
import { Notice } from './Notice'
import { Badge } from './StateBadge'
import { toastFault } from './toast'

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

/** The columns of a list, with a mark at the rows that the draft is about. What is not stored yet can be opened, and no more. */
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

/** Says in the form of a row that the draft is about it. */
export function DraftNotice({ row, onRemoved }: { row: DraftOperation; onRemoved?: () => void }) {
  const { t } = useTranslation()
  const queries = useQueryClient()
  return (
    <div className={classes.notice}>
      <Notice
        tone="warn"
        title={t(`draft.notice.${row.verb}`)}
        action={
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => void removeFromDraft(queries, row).then(onRemoved, toastFault)}
          >
            {t('draft.remove')}
          </Button>
        }
      >
        <Link to={paths.draft}>{t('draft.review')}</Link>
      </Notice>
    </div>
  )
}

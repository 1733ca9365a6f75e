import { Button } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { DraftOperation } from '../../api/types'
import { paths } from '../../paths'
import { removeFromDraft } from '../change/draft'
import { Notice } from '../state/Notice'
import { toastFault } from '../state/toast'
import classes from './notices.module.css'

/** Says in a row's form that the draft changes the row. */
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

import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { Column } from '../../kit/list/DataTable'
import { Time } from '../../kit/text/Time'
import { type AlertRow, addressOf } from './alert-logic'
import { AlertAction } from './marks'
import classes from './Waf.module.css'

/** The columns for a request: what it asked for, what was found, and what happened to it. */
export function useAlertColumns(): Column<AlertRow>[] {
  const { t } = useTranslation('waf')
  return useMemo(
    () => [
      {
        key: 'at',
        header: t('alert.at'),
        width: '92px',
        cell: ({ lead }) => <Time at={lead.created_at} />,
      },
      {
        key: 'action',
        header: t('alert.action'),
        width: '122px',
        cell: ({ lead }) => <AlertAction action={lead.action} />,
      },
      {
        key: 'client',
        header: t('alert.client'),
        width: 'minmax(0, 0.8fr)',
        cell: ({ lead }) => <span className="mono">{lead.client_ip || '–'}</span>,
      },
      {
        key: 'request',
        header: t('alert.request'),
        width: 'minmax(0, 1.6fr)',
        main: true,
        cell: ({ lead }) => (
          <span className={`mono ${classes.request}`} title={`${lead.method} ${addressOf(lead)}`}>
            {lead.method} {addressOf(lead)}
          </span>
        ),
      },
      {
        key: 'found',
        header: t('alert.found'),
        width: 'minmax(0, 1.6fr)',
        cell: ({ lead, records }) => (
          <span>
            {lead.rule_id > 0 && <span className="mono">{lead.rule_id} </span>}
            {lead.message}
            {records.length > 1 && (
              <span className={classes.soft}>{t('alert.moreRules', { count: records.length - 1 })}</span>
            )}
          </span>
        ),
      },
      {
        key: 'score',
        header: t('alert.score'),
        width: '52px',
        align: 'right',
        cell: ({ lead }) => lead.score || <span className="soft">–</span>,
      },
    ],
    [t],
  )
}

import { Button } from '@mantine/core'
import { IconRefresh } from '@tabler/icons-react'
import { useMutation } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../../api/session'
import { componentStream } from '../../api/streams'
import { addTexts } from '../../i18n/i18n'
import { LiveTable } from '../../kit/list/LiveTable'
import { Page } from '../../kit/page/Page'
import { componentName, isTrouble, reasonOf } from '../../kit/state/condition'
import { StateBadge } from '../../kit/state/StateBadge'
import { useStream } from '../../kit/state/useStream'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import en from './en.json'
import { reapply } from './reapply'

addTexts('components', en)

/** What the gateway manages, its state, and what it would write. */
export default function ComponentsPage() {
  const { t } = useTranslation('components')
  const canEdit = useCanEdit()
  const stream = useStream(componentStream)
  const again = useMutation({ mutationFn: reapply })
  return (
    <Page
      title={t('title')}
      lead={t('lead')}
      actions={
        canEdit && (
          <Button
            variant="default"
            leftSection={<IconRefresh size={16} />}
            loading={again.isPending}
            onClick={() => again.mutate()}
          >
            {t('common:bar.reapply')}
          </Button>
        )
      }
    >
      <LiveTable
        title={t('list')}
        stream={stream}
        rowKey={(row) => row.name}
        rowLink={(row) => paths.component(row.name)}
        columns={[
          { key: 'name', header: t('name'), cell: (row) => componentName(row.name) },
          { key: 'state', header: t('state'), width: '130px', cell: (row) => <StateBadge component={row} /> },
          {
            key: 'revision',
            header: t('revision'),
            width: '120px',
            align: 'right',
            cell: (row) => <span className="mono">{`${row.applied_revision} / ${row.revision}`}</span>,
          },
          {
            key: 'applied',
            header: t('applied'),
            width: '110px',
            align: 'right',
            cell: (row) => <Time at={row.last_applied_at} />,
          },
          { key: 'took', header: t('took'), width: '90px', align: 'right', cell: (row) => `${row.duration_ms} ms` },
          {
            key: 'error',
            header: t('error'),
            width: 'minmax(0, 2fr)',
            cell: (row) => (isTrouble(row) ? reasonOf(row) : '–'),
          },
        ]}
      />
      <Outlet />
    </Page>
  )
}

import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { targets } from '../../api/resources'
import type { BackupTarget } from '../../api/types'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { TargetArchives } from './TargetArchives'
import classes from './Targets.module.css'
import { TargetTest } from './TargetTest'
import { targetDefaults, targetFields, targetShape } from './target-form'

const nameOf = (row: BackupTarget) => row.name || row.target_url

/** The targets for copies of the backups. */
export default function Targets() {
  const { t } = useTranslation('backups', { keyPrefix: 'targets' })
  const columns: Column<BackupTarget>[] = [
    {
      key: 'active',
      header: t('columns.on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={targets} row={row} field="active" name={nameOf(row)} harmless />,
    },
    {
      key: 'target',
      header: t('columns.target'),
      main: true,
      width: 'minmax(0, 2fr)',
      cell: (row) => (
        <span className={classes.target}>
          {row.name && <span>{row.name}</span>}
          <span className={row.name ? 'mono soft' : 'mono'} title={row.target_url}>
            {row.target_url}
          </span>
        </span>
      ),
      sortBy: nameOf,
    },
    {
      key: 'kind',
      header: t('columns.kind'),
      width: '110px',
      cell: (row) => t(`target.kind.options.${row.kind}`),
      sortBy: (row) => row.kind,
    },
    {
      key: 'last',
      header: t('columns.last'),
      width: '210px',
      cell: (row) => <LastUpload row={row} />,
      sortBy: (row) => row.last_upload_at,
    },
    { key: 'keep', header: t('columns.keep'), width: '70px', align: 'right', cell: (row) => row.keep },
  ]
  return (
    <>
      <ResourceList
        resource={targets}
        text="backups:targets.target"
        columns={columns}
        // Uploads leave no audit entry.
        every={15_000}
        searchText={(row) => [row.name, row.target_url, row.kind, row.last_error, row.id].join(' ')}
        rowLink={(row) => paths.backupTarget(row.id)}
        createLink={paths.backupTargetNew}
      />
      <Outlet />
    </>
  )
}

function LastUpload({ row }: { row: BackupTarget }) {
  const { t } = useTranslation('backups', { keyPrefix: 'targets' })
  if (!row.last_error && !row.last_upload_at) return <span className="soft">{t('last.none')}</span>
  return (
    <span title={row.last_error || undefined}>
      <Badge tone={row.last_error ? 'bad' : 'live'}>{t(row.last_error ? 'last.failed' : 'last.ok')}</Badge>{' '}
      {row.last_upload_at && <Time at={row.last_upload_at} />}
    </span>
  )
}

const form = {
  resource: targets,
  text: 'backups:targets.target',
  list: paths.backupTargets,
  fields: targetFields,
  shape: targetShape,
  preview: false,
}

export function Create() {
  return <CreateDrawer {...form} defaults={targetDefaults} />
}

export function Edit() {
  const { t } = useTranslation('backups', { keyPrefix: 'targets' })
  return (
    <EditDrawer
      {...form}
      wide
      name={nameOf}
      fixed={() => ['kind']}
      above={(row) =>
        row.last_error && (
          <div className={classes.notice}>
            <Notice tone="bad" title={t('failedTitle')}>
              {row.last_error}
            </Notice>
          </div>
        )
      }
    >
      {(row) => (
        <>
          <TargetTest key={row.updated_at} id={row.id} />
          <TargetArchives id={row.id} />
        </>
      )}
    </EditDrawer>
  )
}

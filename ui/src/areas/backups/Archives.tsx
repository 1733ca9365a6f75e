import './texts'
import { Button, FileButton, Group } from '@mantine/core'
import { IconCheckupList, IconDownload, IconRestore, IconTrash, IconUpload } from '@tabler/icons-react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { backupSettings } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { Backup } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { DataTable } from '../../kit/list/DataTable'
import { RowMenu } from '../../kit/list/RowMenu'
import { Empty } from '../../kit/page/Empty'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Badge } from '../../kit/state/StateBadge'
import { toast, toastFault } from '../../kit/state/toast'
import { bytes, duration } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import classes from './Backups.module.css'
import { LastRestore } from './LastRestore'
import { RestoreDialog } from './RestoreDialog'
import { backupsQuery, downloadOf, restoreQuery } from './resources'
import { Strip } from './Strip'
import { standingOf, standingTone } from './standing'

/** The archives on this machine, with buttons to make or upload one. */
export default function Archives() {
  const { t } = useTranslation('backups')
  const backups = useQuery(backupsQuery)
  const restore = useQuery(restoreQuery)
  const [chosen, setChosen] = useState<Backup | null>(null)
  return (
    <>
      {restore.data && restore.data.state !== 'none' && <LastRestore />}
      <Panel title={t('list.title')} aside={<Actions />} flush>
        <Loaded query={backups} height={200}>
          {(list) =>
            list.length === 0 ? (
              <Empty inPanel title={t('list.empty')} text={t('list.emptyText')} />
            ) : (
              <>
                <Strip backups={list} />
                <List backups={list} onRestore={setChosen} />
              </>
            )
          }
        </Loaded>
      </Panel>
      <Panel title={t('settings.title')}>
        <SettingsForm
          singleton={backupSettings}
          text="backups:settings"
          fields={[
            { name: 'prove', type: 'switch' },
            { name: 'passphrase', type: 'password', configured: 'passphrase_configured' },
          ]}
        />
      </Panel>
      {chosen && <RestoreDialog backup={chosen} onClose={() => setChosen(null)} />}
    </>
  )
}

/** Buttons to make or upload a backup. */
function Actions() {
  const { t } = useTranslation('backups')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const settle = () => queries.invalidateQueries({ queryKey: backupsQuery.queryKey })
  const run = useMutation({
    mutationFn: () => {
      const made = unwrap(http.POST('/backups', { body: {} }))
      setTimeout(settle, 300) // by then the running backup is in the list
      return made
    },
    onSuccess: ({ status, error }) =>
      status === 'success' ? toast('live', t('run.done')) : toast('bad', t('run.failed'), error),
    onError: toastFault,
    onSettled: settle,
  })
  const upload = useMutation({
    mutationFn: (file: File) =>
      unwrap(
        http.POST('/backups/upload', {
          body: file as never,
          bodySerializer: (body: unknown) => body as File,
          headers: { 'Content-Type': 'application/octet-stream' },
        }),
      ),
    onSuccess: () => toast('live', t('upload.done')),
    onError: toastFault,
    onSettled: settle,
  })
  if (!canEdit) return null
  return (
    <Group gap="xs">
      <FileButton onChange={(file) => file && upload.mutate(file)}>
        {(props) => (
          <Button
            {...props}
            size="compact-sm"
            variant="default"
            loading={upload.isPending}
            leftSection={<IconUpload size={14} aria-hidden />}
          >
            {t('upload.verb')}
          </Button>
        )}
      </FileButton>
      <Button size="compact-sm" loading={run.isPending} onClick={() => run.mutate()}>
        {t('run.verb')}
      </Button>
    </Group>
  )
}

function List({ backups, onRestore }: { backups: readonly Backup[]; onRestore: (backup: Backup) => void }) {
  const { t } = useTranslation('backups')
  const canEdit = useCanEdit()
  return (
    <DataTable
      label={t('list.title')}
      rows={backups}
      rowKey={({ id }) => id}
      columns={[
        {
          key: 'made',
          header: t('list.made'),
          cell: (row) => (
            <span>
              <Time at={row.started_at} /> <span className="soft">{row.host || t('list.unknownHost')}</span>
            </span>
          ),
        },
        {
          key: 'kind',
          header: t('list.kind'),
          cell: (row) => t(row.uploaded ? 'kind.uploaded' : `kind.${row.kind || 'manual'}`),
          width: 'minmax(0, .6fr)',
        },
        {
          key: 'standing',
          header: t('list.standing'),
          cell: (row) => <Standing backup={row} />,
          width: 'minmax(0, 1.6fr)',
        },
        {
          key: 'size',
          header: t('list.size'),
          align: 'right',
          width: 'minmax(0, .6fr)',
          cell: (row) => (row.status === 'success' ? bytes(row.size) : row.written ? bytes(row.written) : '–'),
        },
        ...(canEdit
          ? [
              {
                key: 'more',
                header: '',
                width: '40px',
                cell: (row: Backup) => <More backup={row} onRestore={onRestore} />,
              },
            ]
          : []),
      ]}
    />
  )
}

function Standing({ backup }: { backup: Backup }) {
  const { t } = useTranslation('backups')
  const standing = standingOf(backup)
  const { proof, remote_uploads: uploads, encrypted, phase } = backup
  const lost = uploads.filter(({ status }) => status === 'failed').length
  const sending = uploads.filter(({ status }) => status === 'running')
  return (
    <div>
      <Badge tone={standingTone[standing]}>
        {standing === 'running' && phase ? t(`phase.${phase}`) : t(`standing.${standing}`)}
      </Badge>{' '}
      {standing === 'proven' && proof && (
        <span className="soft">
          {t('proof.took', { time: duration(Math.max(1, Math.round(proof.duration_ms / 1000))) })}
        </span>
      )}
      {encrypted && <span className="soft"> {t('encrypted')}</span>}
      {uploads.length > sending.length && (
        <span className="soft">
          {' '}
          {t(lost ? 'uploads.failed' : 'uploads.done', { count: lost || uploads.length - sending.length })}
        </span>
      )}
      {sending.map(({ remote_id, target, sent }) => (
        <Sending key={remote_id} target={target} sent={sent} size={backup.size} />
      ))}
      {(backup.error || proof?.error) && <div className={classes.why}>{backup.error || proof?.error}</div>}
    </div>
  )
}

/** The progress of an upload to a target. */
function Sending({ target, sent, size }: { target: string; sent: number; size: number }) {
  const { t } = useTranslation('backups')
  return (
    <div className={classes.sending}>
      <progress max={size} value={sent} aria-label={t('uploads.to', { target })} />
      <span className="soft">
        {t('uploads.sent', { sent: bytes(sent), size: bytes(size) })} <span className="mono">{target}</span>
      </span>
    </div>
  )
}

function More({ backup, onRestore }: { backup: Backup; onRestore: (backup: Backup) => void }) {
  const { t } = useTranslation('backups')
  const queries = useQueryClient()
  const path = { params: { path: { id: backup.id } } }
  const settle = () => queries.invalidateQueries({ queryKey: backupsQuery.queryKey })
  const prove = async () => {
    setTimeout(settle, 300)
    try {
      const { proof } = await unwrap(http.POST('/backups/{id}/verify', { ...path, body: {} }))
      if (proof?.status === 'proven') toast('live', t('proof.done'))
      else toast('bad', t('proof.failed'), proof?.error)
    } catch (cause) {
      toastFault(cause)
    }
    settle()
  }
  const remove = () =>
    confirm({
      title: t('remove.title'),
      text: <p>{t('remove.text', { file: backup.file })}</p>,
      verb: t('remove.verb'),
      danger: true,
      act: () => unwrap(http.DELETE('/backups/{id}', path)).then(settle),
    })
  const usable = backup.status === 'success'
  return (
    <RowMenu
      name={backup.file}
      items={() => [
        ...(usable
          ? [
              { label: t('verbs.restore'), icon: IconRestore, act: () => onRestore(backup) },
              { label: t('verbs.prove'), icon: IconCheckupList, act: () => void prove() },
              { label: t('verbs.download'), icon: IconDownload, act: () => location.assign(downloadOf(backup.id)) },
            ]
          : []),
        { label: t('verbs.delete'), icon: IconTrash, act: () => void remove(), danger: true },
      ]}
    />
  )
}

import { Button } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import { FaultNotice } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { toast } from '../../kit/state/toast'
import { bytes } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { backupsQuery } from './resources'
import classes from './Targets.module.css'

/** The archives on a target. Loaded only on request: it takes a connection, and sometimes costs money. */
export function TargetArchives({ id }: { id: string }) {
  const { t } = useTranslation('backups', { keyPrefix: 'targets' })
  const canSee = useCanEdit()
  const queries = useQueryClient()
  const look = useMutation({
    mutationFn: () => unwrap(http.GET('/backup-remotes/{id}/archives', { params: { path: { id } } })),
  })
  const copy = useMutation({
    mutationFn: (file: string) =>
      unwrap(http.POST('/backup-remotes/{id}/fetch', { params: { path: { id } }, body: { file } })),
    onSuccess: () => toast('live', t('archives.copied')),
    onSettled: () => queries.invalidateQueries({ queryKey: backupsQuery.queryKey }),
  })
  if (!canSee) return null
  return (
    <section className={classes.section} aria-label={t('archives.title')}>
      <div className={classes.head}>
        <Button variant="default" loading={look.isPending} onClick={() => look.mutate()}>
          {t(look.data ? 'archives.again' : 'archives.verb')}
        </Button>
      </div>
      {look.isError && <FaultNotice fault={look.error} />}
      {copy.isError && <FaultNotice fault={copy.error} />}
      {look.data?.error && <Notice tone="bad">{look.data.error}</Notice>}
      {look.data && !look.data.error && look.data.archives.length === 0 && (
        <span className="soft">{t('archives.none')}</span>
      )}
      {look.data && look.data.archives.length > 0 && (
        <table className={classes.archives} aria-label={t('archives.title')}>
          <thead>
            <tr>
              <th>{t('archives.file')}</th>
              <th>{t('archives.host')}</th>
              <th>{t('archives.size')}</th>
              <th>{t('archives.time')}</th>
              <th>
                <span className="visually-hidden">{t('archives.copy')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {look.data.archives.map((one) => (
              <tr key={one.file}>
                <td className="mono" title={one.file}>
                  {one.name}
                </td>
                <td>{one.own ? t('archives.own') : one.host}</td>
                <td>{bytes(one.size)}</td>
                <td>
                  <Time at={one.modified_at} />
                </td>
                <td>
                  <Button
                    size="compact-sm"
                    variant="default"
                    loading={copy.isPending && copy.variables === one.file}
                    disabled={copy.isPending}
                    aria-label={t('archives.copyOne', { name: one.name })}
                    onClick={() => copy.mutate(one.file)}
                  >
                    {t('archives.copy')}
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

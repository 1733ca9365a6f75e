import { Button } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import { renew } from '../../kit/change/renew'
import { TestSteps } from '../../kit/job/TestSteps'
import { FaultNotice } from '../../kit/state/Loaded'
import classes from './Targets.module.css'

const steps = ['connect', 'upload', 'delete'] as const

/** Uploads a small file to the target and deletes it, step by step. */
export function TargetTest({ id }: { id: string }) {
  const { t } = useTranslation('backups', { keyPrefix: 'targets' })
  const queries = useQueryClient()
  const canEdit = useCanEdit()
  const test = useMutation({
    mutationFn: () => unwrap(http.POST('/backup-remotes/{id}/test', { params: { path: { id } } })),
    // The first connection to an SFTP server stores its host key.
    onSuccess: () => renew(queries, 'backup.remote'),
  })
  return (
    <section className={classes.section} aria-label={t('test.title')}>
      <div className={classes.head}>
        <Button variant="default" disabled={!canEdit} loading={test.isPending} onClick={() => test.mutate()}>
          {t('test.verb')}
        </Button>
        <span className="soft">{t('test.help')}</span>
      </div>
      {test.isError && <FaultNotice fault={test.error} />}
      {test.data && <TestSteps text="backups:targets.test" names={steps} steps={test.data.steps} />}
    </section>
  )
}

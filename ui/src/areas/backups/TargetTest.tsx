import { Button } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { BackupTargetTest } from '../../api/types'
import { useCanEdit } from '../../app/session'
import { FaultNotice } from '../../kit/Loaded'
import { renew } from '../../kit/renew'
import { Badge } from '../../kit/StateBadge'
import classes from './Targets.module.css'

const steps = ['connect', 'upload', 'delete'] as const

/** Sends a small file to the target and deletes it, step by step. */
export function TargetTest({ id }: { id: string }) {
  const { t } = useTranslation('targets')
  const queries = useQueryClient()
  const canEdit = useCanEdit()
  const test = useMutation({
    mutationFn: () => unwrap(http.POST('/backup-remotes/{id}/test', { params: { path: { id } } })),
    // The first connection to an SFTP server stores its key.
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
      {test.data && <Outcome result={test.data} />}
    </section>
  )
}

function Outcome({ result }: { result: BackupTargetTest }) {
  const { t } = useTranslation('targets')
  return (
    <ol className={classes.steps} aria-live="polite">
      {steps.map((name) => {
        const step = result.steps.find((one) => one.name === name)
        return (
          <li key={name}>
            <Badge tone={step ? (step.ok ? 'live' : 'bad') : 'off'}>{t(`test.${name}`)}</Badge>
            <span className={step?.error ? undefined : 'soft'}>
              {step ? step.error || t(`test.fine.${name}`) : t('test.notReached')}
            </span>
          </li>
        )
      })}
    </ol>
  )
}

import { Button } from '@mantine/core'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import { toFault } from '../api/fault'
import type { Backup, RestoreOffer } from '../api/types'
import targetClasses from '../areas/backups/Targets.module.css'
import { targetDefaults, targetFields, targetShape } from '../areas/backups/target-form'
import { Field, type Values } from '../kit/form/fields'
import { placeFault } from '../kit/form/form-errors'
import { known } from '../kit/form/known'
import { Notice } from '../kit/state/Notice'
import { bytes } from '../kit/text/format'
import { Time } from '../kit/text/Time'
import { headerOf } from './setup-token'

/** The form's fields for the location of a target and the login. */
const fields = known(
  'backup.remote',
  targetFields.filter(({ name }) => !['name', 'keep', 'active'].includes(name)),
)
const names = fields.map(({ name }) => name)
const covered = Object.fromEntries(fields.flatMap(({ name, covers = [] }) => covers.map((other) => [other, name])))

const bodyOf = (values: Values) => {
  const { kind, allow_internal, settings } = targetShape.write(values)
  return { kind, allow_internal, settings } as never
}

interface RestoreSourceProps {
  token: string
  onBrought: (backup: Backup) => void
  onFault: (cause: unknown) => void
}

/** A one-time off-site target: lists its archives and fetches the chosen one. */
export function RestoreSource({ token, onBrought, onFault }: RestoreSourceProps) {
  const { t } = useTranslation('door')
  const form = useForm<Values>({ defaultValues: targetDefaults })
  const values = form.watch()
  const [problem, setProblem] = useState('')
  const [offer, setOffer] = useState<RestoreOffer | null>(null)
  const [fetching, setFetching] = useState('')
  const params = { header: headerOf(token) }
  const shown = fields.filter(({ when }) => when?.(values, targetDefaults) ?? true)

  const complain = (cause: unknown) => {
    const fault = toFault(cause)
    if (fault.fields.setup_token) onFault(fault)
    else setProblem(placeFault(fault, names, form.setError, covered))
  }
  const look = form.handleSubmit(async (all) => {
    setProblem('')
    setOffer(null)
    try {
      setOffer(await unwrap(http.POST('/setup/restore/archives', { params, body: bodyOf(all) })))
    } catch (cause) {
      complain(cause)
    }
  })
  const fetch = async (file: string) => {
    setProblem('')
    setFetching(file)
    try {
      const body = { ...(bodyOf(form.getValues()) as object), file } as never
      onBrought(await unwrap(http.POST('/setup/restore/fetch', { params, body })))
    } catch (cause) {
      complain(cause)
      setFetching('')
    }
  }
  const trust = (key: string) => {
    form.setValue('host_key_fingerprint', key)
    void look()
  }
  return (
    <>
      {shown.map((spec) => (
        <Field
          key={spec.name}
          spec={spec.name === 'host_key_fingerprint' ? { ...spec, help: () => t('restore.fingerprint') } : spec}
          text="backups:targets.target"
          control={form.control}
          values={values}
        />
      ))}
      <Button variant="default" loading={form.formState.isSubmitting} onClick={() => void look()}>
        {t('restore.look')}
      </Button>
      {problem && <Notice tone="bad">{problem}</Notice>}
      {offer?.error && <Notice tone="bad">{offer.error}</Notice>}
      {offer?.host_key && (
        <Notice
          tone="warn"
          title={t('restore.keyTitle')}
          action={
            <Button size="compact-sm" variant="default" onClick={() => trust(offer.host_key)}>
              {t('restore.trust')}
            </Button>
          }
        >
          <span className="mono">{offer.host_key}</span>
          <div>{t('restore.keyText')}</div>
        </Notice>
      )}
      {offer && !offer.error && !offer.host_key && offer.archives.length === 0 && (
        <Notice tone="off">{t('backups:targets.archives.none')}</Notice>
      )}
      {offer && offer.archives.length > 0 && (
        <table className={targetClasses.archives} aria-label={t('backups:targets.archives.title')}>
          <thead>
            <tr>
              <th>{t('backups:targets.archives.host')}</th>
              <th>{t('backups:targets.archives.time')}</th>
              <th>{t('backups:targets.archives.size')}</th>
              <th>
                <span className="visually-hidden">{t('restore.use')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {offer.archives.map(({ file, name, host, size, modified_at }) => (
              <tr key={file}>
                <td title={file}>{host}</td>
                <td>
                  <Time at={modified_at} />
                </td>
                <td>{bytes(size)}</td>
                <td>
                  <Button
                    size="compact-sm"
                    variant="default"
                    loading={fetching === file}
                    disabled={fetching !== ''}
                    aria-label={t('restore.useOne', { name })}
                    onClick={() => void fetch(file)}
                  >
                    {t('restore.use')}
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  )
}

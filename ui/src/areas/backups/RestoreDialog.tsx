import { Button, Group, Modal, Select } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import type { Backup, RestorePlan } from '../../api/types'
import { count } from '../../kit/format'
import { Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { Password } from '../../kit/Password'
import { Time } from '../../kit/Time'
import classes from './Backups.module.css'
import { restoreQuery } from './resources'

/** Says what a restore would do before anything is touched, asks what must be known, and begins it. */
export function RestoreDialog({ backup, onClose }: { backup: Backup; onClose: () => void }) {
  const { t } = useTranslation('backups')
  const queries = useQueryClient()
  const [typed, setTyped] = useState('')
  const [passphrase, setPassphrase] = useState('')
  const [links, setLinks] = useState<Record<string, string>>({})
  const secret = passphrase ? { passphrase } : {}
  const params = { path: { id: backup.id } }
  const plan = useQuery({
    queryKey: ['backups', backup.id, 'plan', passphrase],
    queryFn: () => unwrap(http.POST('/backups/{id}/restore-plan', { params, body: secret })),
    retry: false,
    refetchOnWindowFocus: false,
  })
  const begin = useMutation({
    mutationFn: () => unwrap(http.POST('/backups/{id}/restore', { params, body: { ...secret, interfaces: links } })),
    onSuccess: (begun) => {
      queries.setQueryData(restoreQuery.queryKey, begun)
      onClose()
    },
  })
  const asked = plan.isError && toFault(plan.error).fields.passphrase
  const fault = begin.isError ? toFault(begin.error) : null
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      centered
      title={t('restore.title')}
      closeButtonProps={{ 'aria-label': t('common:close') }}
    >
      {asked ? (
        <form
          className={classes.stack}
          onSubmit={(event) => {
            event.preventDefault()
            setPassphrase(typed)
          }}
        >
          <Password
            label={t('restore.passphrase')}
            description={t('restore.passphraseHelp')}
            value={typed}
            onChange={({ currentTarget }) => setTyped(currentTarget.value)}
            error={passphrase && t('restore.wrong')}
            data-autofocus
          />
          <Group justify="flex-end">
            <Button type="submit" disabled={!typed}>
              {t('restore.open')}
            </Button>
          </Group>
        </form>
      ) : (
        <Loaded query={plan} height={160}>
          {(found) => (
            <div className={classes.stack}>
              <Facts plan={found} />
              {found.blockers.map((text) => (
                <Notice key={text} tone="bad" title={text} />
              ))}
              {found.warnings.map((text) => (
                <Notice key={text} tone="warn" title={text} />
              ))}
              {found.interfaces
                .filter(({ here }) => !here)
                .map(({ name }) => (
                  <Select
                    key={name}
                    label={t('restore.link', { name })}
                    placeholder={t('restore.noLink')}
                    data={found.links}
                    value={links[name] ?? null}
                    clearable
                    onChange={(to) => setLinks(({ [name]: _, ...rest }) => (to ? { ...rest, [name]: to } : rest))}
                    error={fault?.fields[`interfaces.${name}`]}
                  />
                ))}
              <p>{t('restore.away')}</p>
              {fault && <Notice tone="bad" title={fault.message} />}
              <Group justify="flex-end" gap="xs">
                <Button variant="default" onClick={onClose} data-autofocus>
                  {t('common:cancel')}
                </Button>
                <Button
                  color="red.8"
                  loading={begin.isPending}
                  disabled={found.blockers.length > 0}
                  onClick={() => begin.mutate()}
                >
                  {t('restore.verb')}
                </Button>
              </Group>
            </div>
          )}
        </Loaded>
      )}
    </Modal>
  )
}

function Facts({ plan }: { plan: RestorePlan }) {
  const { t } = useTranslation('backups')
  return (
    <dl className={classes.facts}>
      <dt>{t('restore.from')}</dt>
      <dd>
        {plan.host} · <Time at={plan.made_at} />
      </dd>
      <dt>{t('restore.version')}</dt>
      <dd>
        {plan.version === plan.this_version
          ? plan.version
          : t('restore.versions', { from: plan.version, to: plan.this_version })}
      </dd>
      <dt>{t('restore.data')}</dt>
      <dd>{t('restore.rows', { rows: count(plan.rows), count: plan.files.length })}</dd>
      <dt>{t('restore.key')}</dt>
      <dd>{t(`restore.keys.${plan.key}`)}</dd>
    </dl>
  )
}

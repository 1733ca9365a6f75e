import { Button, Group, Modal } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import type { Backup } from '../../api/types'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import classes from './Backups.module.css'
import { type Links, PassphraseForm, PlanView } from './PlanView'
import { restoreQuery } from './resources'

/** Shows what a restore would do before it touches anything, asks for what it needs, and starts it. */
export function RestoreDialog({ backup, onClose }: { backup: Backup; onClose: () => void }) {
  const { t } = useTranslation('backups')
  const queries = useQueryClient()
  const [passphrase, setPassphrase] = useState('')
  const [links, setLinks] = useState<Links>({})
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
        <PassphraseForm wrong={Boolean(passphrase)} onOpen={setPassphrase} />
      ) : (
        <Loaded query={plan} height={160}>
          {(found) => (
            <div className={classes.stack}>
              <PlanView plan={found} links={links} onLinks={setLinks} complaints={fault?.fields ?? {}} />
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

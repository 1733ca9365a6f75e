import { Button } from '@mantine/core'
import { IconRefresh } from '@tabler/icons-react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import { addTexts } from '../../i18n/i18n'
import { ServicePage } from '../../kit/page/ServicePage'
import { toast, toastFault } from '../../kit/state/toast'
import { paths } from '../../paths'
import en from './en.json'

addTexts('ntp', en)

export default function NtpPage() {
  const { t } = useTranslation('ntp')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const sync = useMutation({
    mutationFn: () => unwrap(http.POST('/ntp/force-sync')),
    onSuccess: ({ stepped, error }) =>
      error ? toast('warn', t('sync.refused'), error) : toast('live', t(stepped ? 'sync.stepped' : 'sync.done')),
    onError: toastFault,
    onSettled: () => queries.invalidateQueries({ queryKey: ['ntp'] }),
  })
  return (
    <ServicePage
      text="ntp"
      component="ntp"
      tabs={[
        { to: paths.ntp, label: t('tabs.sources') },
        { to: paths.ntpServers, label: t('tabs.servers') },
        { to: paths.ntpSettings, label: t('tabs.settings') },
      ]}
      actions={
        canEdit && (
          <Button
            variant="default"
            leftSection={<IconRefresh size={16} />}
            loading={sync.isPending}
            onClick={() => sync.mutate()}
            title={t('sync.help')}
          >
            {t('sync.verb')}
          </Button>
        )
      }
    />
  )
}

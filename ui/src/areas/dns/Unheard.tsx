import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { dnsSettings } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import { Notice } from '../../kit/state/Notice'
import { toastApplied, toastFault } from '../../kit/state/toast'
import { setUp } from '../network/adoption'
import { networkOfForm } from '../network/network-form'
import { useLinks } from '../network/useLinks'

const isLoopback = (address: string) => address.startsWith('127.') || address === '::1'

/** Warns that the resolver only answers the gateway itself, and offers to listen on the LAN. */
export function Unheard() {
  const { data } = useQuery({ queryKey: [dnsSettings.kind], queryFn: dnsSettings.read })
  return data?.value.listen_addresses.every(isLoopback) ? <Offer /> : null
}

function Offer() {
  const { t } = useTranslation('dns')
  const queries = useQueryClient()
  const canEdit = useCanEdit()
  const lan = useLinks().links.find(({ zone, addresses }) => zone === 'lan' && addresses.length > 0)
  const bound = lan?.addresses[0]?.text ?? ''
  const answer = useMutation({
    mutationFn: () => {
      const network = networkOfForm({ port: lan?.name, role: 'lan', address: bound, dns: true })
      return setUp([network], {}, { reason: '', confirm_within: 0 })
    },
    onSuccess: async ({ applied }) => {
      toastApplied(t('unheard.done', { name: lan?.name }), applied)
      await queries.invalidateQueries({ queryKey: [dnsSettings.kind] })
    },
    onError: toastFault,
  })
  return (
    <Notice
      tone="warn"
      action={
        canEdit &&
        lan && (
          <Button variant="default" size="compact-sm" loading={answer.isPending} onClick={() => answer.mutate()}>
            {t('unheard.answer', { name: lan.name, address: bound.split('/')[0] })}
          </Button>
        )
      }
    >
      {t('unheard.text')}
    </Notice>
  )
}

import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Tunnel } from '../../api/types'
import { paths } from '../../app/paths'
import { useCanEdit } from '../../app/session'
import { Notice } from '../../kit/Notice'
import { natRules } from '../firewall/resources'
import { interfacesQuery } from '../network/useLinks'
import { unmasked } from './tunnel'

/** Says that peers which send everything through the tunnel do not reach the internet yet, and offers the rule for it. */
export function FullTunnel({ tunnel }: { tunnel: Tunnel }) {
  const { t } = useTranslation('tunnels')
  const canEdit = useCanEdit()
  const { data: rules } = useQuery({ queryKey: [natRules.kind], queryFn: natRules.list })
  const { data: links } = useQuery(interfacesQuery)
  const zone = links?.find(({ name }) => name === tunnel.name)?.role
  const network = rules && links && unmasked(tunnel, rules, zone)
  if (!network) return null
  const draft = {
    name: t('full.rule', { name: tunnel.name }),
    kind: 'masquerade',
    out_zone: 'wan',
    src_cidr: network,
    protocol: 'any',
  }
  return (
    <Notice
      tone="warn"
      title={t('full.title')}
      action={
        canEdit && (
          <Button component={Link} to={paths.natRuleNew} state={{ draft } as never} size="compact-sm" variant="default">
            {t('full.verb')}
          </Button>
        )
      }
    >
      {t('full.text', { network })}
    </Notice>
  )
}

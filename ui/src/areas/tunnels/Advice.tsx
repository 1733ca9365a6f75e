import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { natRules } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { Tunnel } from '../../api/types'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import { interfacesQuery } from '../network/useLinks'
import { unmasked } from './tunnel'

/** What a tunnel still needs elsewhere to work fully, with links to prefilled forms. */
export function Advice({ tunnel }: { tunnel: Tunnel }) {
  const { t } = useTranslation('tunnels')
  const { data: rules } = useQuery({ queryKey: [natRules.kind], queryFn: natRules.list })
  const { data: links } = useQuery(interfacesQuery)
  if (!tunnel.active || !rules || !links) return null
  const { name, mode } = tunnel
  const zone = links.find((link) => link.name === name)?.role
  const network = unmasked(tunnel, rules, zone)
  return (
    <>
      {!zone && (
        <Advised of="zone" text={t(`zone.${mode}Text`)} to={paths.interfaceNew} draft={{ type: 'wireguard', name }} />
      )}
      {network && (
        <Advised
          of="full"
          text={t('full.text', { network })}
          to={paths.natRuleNew}
          draft={{
            name: t('full.rule', { name }),
            kind: 'masquerade',
            out_zone: 'wan',
            src_cidr: network,
            protocol: 'any',
          }}
        />
      )}
    </>
  )
}

function Advised({ of, text, to, draft }: { of: 'zone' | 'full'; text: string; to: string; draft: object }) {
  const { t } = useTranslation('tunnels')
  const canEdit = useCanEdit()
  return (
    <Notice
      tone="warn"
      title={t(`${of}.title`)}
      action={
        canEdit && (
          <Button component={Link} to={to} state={{ draft } as never} size="compact-sm" variant="default">
            {t(`${of}.verb`)}
          </Button>
        )
      }
    >
      {text}
    </Notice>
  )
}

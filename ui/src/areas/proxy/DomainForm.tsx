import { Anchor } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { certificates, domains } from '../../api/resources'
import type { Domain } from '../../api/types'
import type { Fields, Values } from '../../kit/form/fields'
import { EditDrawer } from '../../kit/form/ResourceDrawers'
import { Facts } from '../../kit/page/Page'
import { paths } from '../../paths'
import { DomainRules } from './DomainRules'
import { Headers } from './Headers'
import { BackendCell, SiteCertificate } from './marks'
import classes from './Proxy.module.css'
import { useBackends, useSites } from './useSites'

const when = (field: string) => (values: Values) => values[field] === true
const wildcard = (values: Values) => String(values.name).startsWith('*.')

const shape = {
  read: (row: Values): Values => row,
  write: (values: Values): Values => ({
    ...values,
    www_redirect: wildcard(values) ? 'none' : values.www_redirect,
    certificate_id: values.certificate_id ?? null,
    max_body_size_bytes: values.max_body_size_bytes ?? 0,
  }),
}

function useFields(): Fields<'proxy.domain'> {
  const { all } = useBackends()
  const { data: shown = [] } = useQuery({ queryKey: [certificates.kind], queryFn: certificates.list })
  return [
    { name: 'name', type: 'mono' },
    {
      name: 'backend_id',
      type: 'select',
      choices: all.map(({ id, name }) => ({ value: id, label: name })),
    },
    {
      name: 'www_redirect',
      type: 'segments',
      when: (values) => !wildcard(values),
    },
    { name: 'active', type: 'switch' },
    { name: 'http_to_https', type: 'switch', section: 'https' },
    {
      name: 'certificate_id',
      type: 'select',
      choices: shown
        .filter(({ source }) => source !== 'self-signed')
        .map(({ id, names, issuer }) => ({
          value: id,
          label: [names.join(', ') || id, issuer].filter(Boolean).join(' · '),
        })),
    },
    { name: 'hsts_enabled', type: 'switch' },
    { name: 'hsts_max_age', type: 'span', when: when('hsts_enabled') },
    { name: 'hsts_include_subdomains', type: 'switch', when: when('hsts_enabled') },
    { name: 'hsts_preload', type: 'switch', when: when('hsts_enabled') },
    { name: 'disable_h3', type: 'switch' },
    { name: 'rate_limit_enabled', type: 'switch', section: 'protection' },
    { name: 'rate_limit_requests', type: 'number', when: when('rate_limit_enabled') },
    { name: 'rate_limit_period_seconds', type: 'span', when: when('rate_limit_enabled') },
    { name: 'max_body_size_bytes', type: 'size' },
    { name: 'maintenance', type: 'switch' },
    { name: 'access_log', type: 'switch' },
    { name: 'notes', type: 'note', section: 'notes' },
  ]
}

export function Edit() {
  return (
    <EditDrawer
      resource={domains}
      text="proxy:domain"
      list={paths.domains}
      wide
      fields={useFields()}
      shape={shape}
      name={(row) => row.name}
      above={(row) => (
        <div className={classes.above}>
          <Now domain={row} />
          <Headers domain={row.id} />
          <DomainRules domain={row} />
        </div>
      )}
    />
  )
}

/** What a visitor of the domain gets now. */
function Now({ domain }: { domain: Domain }) {
  const { t } = useTranslation('proxy')
  const [site] = useSites().join([domain])
  if (!site) return null
  return (
    <Facts
      facts={[
        [
          t('domain.backend_id.label'),
          <BackendCell key="b" id={site.backend_id} name={site.backend?.name} health={site.health} />,
        ],
        [t('domain.certificate'), <SiteCertificate key="c" site={site} />],
        [
          t('domain.address'),
          domain.name.startsWith('*.') ? (
            <span key="a" className="mono">
              {domain.name}
            </span>
          ) : (
            <Anchor
              key="a"
              href={`https://${domain.name}/`}
              target="_blank"
              rel="noopener"
              underline="always"
              className="mono"
            >
              {domain.name}
            </Anchor>
          ),
        ],
      ]}
    />
  )
}

import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { changeSet } from '../../api/resource'
import { backends, domains as domainList, routingRules } from '../../api/resources'
import type { Backend } from '../../api/types'
import type { Fields, Values } from '../../kit/form/fields'
import { known } from '../../kit/form/known'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { Facts } from '../../kit/page/Page'
import { Things } from '../../kit/text/Things'
import { paths } from '../../paths'
import { useLive } from './health'
import { HealthBadge } from './marks'
import classes from './Proxy.module.css'
import { Servers } from './Servers'
import { backendOperations, newIds } from './site'
import { useBackends, useBackendUsers } from './useSites'

const checked = (values: Values) => values.health_check_enabled === true
const scheme = { name: 'scheme', type: 'segments' } as const
const algorithm = { name: 'lb_algorithm', type: 'choice' } as const
/** A backend with its first server. */
const freshFields: Fields<'proxy.backend', 'address' | 'port'> = [
  { name: 'name', type: 'text' },
  scheme,
  ...known('proxy.server', [
    { name: 'address', type: 'mono' },
    { name: 'port', type: 'number' },
  ]),
  algorithm,
]

const fields: Fields<'proxy.backend'> = [
  { name: 'name', type: 'text', section: 'general' },
  scheme,
  { name: 'verify_tls', type: 'switch', when: (values) => values.scheme === 'https' },
  algorithm,
  { name: 'websocket', type: 'switch' },
  { name: 'force_http1', type: 'switch' },
  { name: 'active', type: 'switch' },
  { name: 'health_check_enabled', type: 'switch', section: 'check' },
  { name: 'health_check_method', type: 'segments', when: checked },
  { name: 'health_check_path', type: 'mono', when: checked },
  { name: 'health_check_expect', type: 'mono', when: checked },
  { name: 'health_check_host', type: 'mono', when: checked },
  { name: 'health_check_interval_seconds', type: 'span', when: checked },
]

/** The form for a new backend with its first server. Without a server it would answer 503. */
export function Create() {
  const [ids] = useState(newIds)
  const operations = (values: Values) => backendOperations(values, ids)
  return (
    <CreateDrawer
      resource={{
        kind: backends.kind,
        past: backends.past,
        create: (body, intent) => changeSet(operations(body as Values), intent),
      }}
      operations={operations}
      text="proxy:backend"
      list={paths.backends}
      fields={freshFields}
      defaults={{ address: '', port: 80 }}
    />
  )
}

export function Edit() {
  return (
    <EditDrawer
      resource={backends}
      text="proxy:backend"
      list={paths.backends}
      wide
      fields={fields}
      name={(row) => row.name}
      above={(row) => (
        <div className={classes.above}>
          <Now backend={row} />
          <Servers backend={row} />
        </div>
      )}
    />
  )
}

/** The state of a backend, and who uses it. */
function Now({ backend }: { backend: Backend }) {
  const { t } = useTranslation('proxy')
  const live = useLive()
  const { serversOf } = useBackends()
  const { domains, rules } = useBackendUsers()
  const sites = domains.get(backend.id) ?? []
  const routes = rules.get(backend.id) ?? []
  const users = [
    ...sites.map(({ id, name }) => ({ kind: domainList.kind, id, name })),
    ...routes.map(({ id, path_prefix }) => ({ kind: routingRules.kind, id, name: path_prefix })),
  ]
  return (
    <Facts
      facts={[
        [t('backend.health'), <HealthBadge key="h" health={live.healthOf(backend, serversOf(backend.id))} />],
        [
          t('backend.users'),
          users.length === 0 ? (
            <span key="u" className="soft">
              {t('backend.unused')}
            </span>
          ) : (
            <Things
              key="u"
              things={users}
              className={classes.servers}
              all={{ to: sites.length > 0 ? paths.domains : paths.routing, q: backend.name }}
            />
          ),
        ],
      ]}
    />
  )
}

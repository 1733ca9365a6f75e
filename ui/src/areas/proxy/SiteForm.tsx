import { useState } from 'react'
import { changeSet } from '../../api/resource'
import { domains } from '../../api/resources'
import type { Fields, Values } from '../../kit/form/fields'
import { known } from '../../kit/form/known'
import { CreateDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import { newIds, siteOperations } from './site'
import { useBackends } from './useSites'

const isNew = (values: Values) => values.where === 'new'

/** The form for a new site: its domain, and its server. All of it is stored, or nothing. */
export function Create() {
  const { all } = useBackends()
  const [ids] = useState(newIds)
  const fields: Fields<'proxy.domain', 'where' | 'scheme' | 'address' | 'port'> = [
    { name: 'name', type: 'mono' },
    { name: 'where', type: 'segments', options: ['new', 'existing'] },
    {
      name: 'backend_id',
      type: 'select',
      choices: all.map(({ id, name }) => ({ value: id, label: name })),
      when: (values) => !isNew(values),
    },
    ...known('proxy.backend', [{ name: 'scheme', type: 'segments', when: isNew }]),
    ...known('proxy.server', [
      { name: 'address', type: 'mono', when: isNew },
      { name: 'port', type: 'number', when: isNew },
    ]),
    { name: 'http_to_https', type: 'switch' },
  ]
  const operations = (values: Values) => siteOperations(values, ids)
  return (
    <CreateDrawer
      resource={{
        kind: domains.kind,
        past: domains.past,
        create: (body, intent) => changeSet(operations(body as Values), intent),
      }}
      operations={operations}
      pieces={({ changes }) => changes}
      text="proxy:site"
      list={paths.domains}
      fields={fields}
      defaults={{ where: 'new', backend_id: null, scheme: 'http', address: '', port: 80 }}
    />
  )
}

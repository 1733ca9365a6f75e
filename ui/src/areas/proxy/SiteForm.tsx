import { useState } from 'react'
import { changeSet } from '../../api/resource'
import { domains } from '../../api/resources'
import type { FieldSpec, Values } from '../../kit/form/fields'
import { CreateDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import { newIds, siteOperations } from './site'
import { useBackends } from './useSites'

const isNew = (values: Values) => values.where === 'new'

/** A new site in one go: its domain, and where it runs. All of it is stored, or nothing. */
export function Create() {
  const { all } = useBackends()
  const [ids] = useState(newIds)
  const fields: FieldSpec[] = [
    { name: 'name', type: 'mono', required: true },
    { name: 'where', type: 'segments', options: ['new', 'existing'] },
    {
      name: 'backend_id',
      type: 'select',
      required: true,
      choices: all.map(({ id, name }) => ({ value: id, label: name })),
      when: (values) => !isNew(values),
    },
    { name: 'scheme', type: 'segments', options: ['http', 'https'], when: isNew },
    { name: 'address', type: 'mono', required: true, when: isNew },
    { name: 'port', type: 'number', required: true, min: 1, max: 65535, when: isNew },
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
      defaults={{
        name: '',
        where: 'new',
        backend_id: null,
        scheme: 'http',
        address: '',
        port: 80,
        http_to_https: true,
      }}
    />
  )
}

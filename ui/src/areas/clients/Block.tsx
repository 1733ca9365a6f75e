import '../firewall/texts' // texts of the preview
import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Intent } from '../../api/client'
import { changeSet } from '../../api/resource'
import { addresses, addressGroups, rules } from '../../api/resources'
import type { Client } from '../../api/types'
import { ownConnection } from '../../kit/change/own-connection'
import type { FieldSpec, Values } from '../../kit/form/fields'
import { CreateForm } from '../../kit/form/ResourceForm'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Loaded } from '../../kit/state/Loaded'
import { dotted, paths } from '../../paths'
import { addressesOf, blockOperations, nameOf, type Stored } from './block'
import classes from './Clients.module.css'
import { clientQuery, disconnect } from './resources'

const fields: FieldSpec<'end'>[] = [{ name: 'end', type: 'switch' }]

/** The form to block a client: drops everything that it sends. */
export function Block() {
  const { t } = useTranslation('clients')
  const id = dotted((useParams({ strict: false }) as { id: string }).id)
  const query = useQuery({ ...clientQuery(id), refetchInterval: false })
  return (
    <DetailDrawer title={t('block.title')} back={paths.client(id)}>
      <Loaded query={query} height={240}>
        {(client) => <Form client={client} />}
      </Loaded>
    </DetailDrawer>
  )
}

function Form({ client }: { client: Client }) {
  const { t } = useTranslation('clients')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const [objects, groups, stored] = useQueries({
    queries: [
      { queryKey: [addresses.kind], queryFn: addresses.list },
      { queryKey: [addressGroups.kind], queryFn: addressGroups.list },
      { queryKey: [rules.kind], queryFn: rules.list },
    ],
  })
  if (!objects.data || !groups.data || !stored.data) return null
  const known: Stored = { objects: objects.data, groups: groups.data, rules: stored.data }
  const operations = () => blockOperations(client, known, () => crypto.randomUUID())
  const block = async ({ end }: Values, intent?: Intent) => {
    const blocked = await changeSet(operations(), intent)
    if (end) await disconnect(client.id)
    await queries.invalidateQueries({ queryKey: ['clients'] })
    return blocked
  }
  return (
    <div className={classes.detail}>
      <p>{t('block.text', { name: nameOf(client), addresses: addressesOf(client).join(', ') })}</p>
      <p className="soft">{t('block.limits')}</p>
      <CreateForm
        resource={{ kind: rules.kind, past: rules.past, create: (body, intent) => block(body as Values, intent) }}
        operations={operations}
        text="clients:block"
        fields={fields}
        defaults={{ end: true }}
        verb={t('block.verb')}
        guard={ownConnection}
        onDone={() => navigate({ to: paths.client(client.id), search: true } as never)}
      />
    </div>
  )
}

import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { interfaces, ipAddresses } from '../../api/resources'
import type { NetworkInterface } from '../../api/types'
import { ownConnection } from '../../kit/change/own-connection'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { useDraft } from '../../kit/form/useDraft'
import { SubList } from '../../kit/list/SubList'
import { Facts } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { bytes, count } from '../../kit/text/format'
import { paths } from '../../paths'
import { addressDefaults, addressFields } from './address-form'
import { bondModes, interfaceShape, types } from './interface-shape'
import { linkNames, toneOf } from './links'
import classes from './Network.module.css'
import { addressesQuery, useLinks, useUnsupported, useZoneNames } from './useLinks'
import { rateWords } from './words'

const defaults = { type: 'vlan', bond_mode: 'active-backup' }

function useForm() {
  const { links } = useLinks()
  const zones = useZoneNames()
  const choices = linkNames(links)
  const undeclared = linkNames(links.filter(({ declared }) => !declared))
  const fields: Fields<'network.interface'> = [
    { name: 'type', type: 'choice', options: types, remarks: useUnsupported() },
    { name: 'name', type: 'suggest', choices: undeclared },
    { name: 'role', type: 'select', choices: zones },
    { name: 'parent', type: 'select', choices, required: true, when: ({ type }) => type === 'vlan' },
    { name: 'vlan_id', type: 'number', required: true, when: ({ type }) => type === 'vlan' },
    {
      name: 'members',
      type: 'members',
      choices,
      required: true,
      when: ({ type }) => type === 'bridge' || type === 'bond',
    },
    { name: 'bond_mode', type: 'select', choices: bondModes, required: true, when: ({ type }) => type === 'bond' },
    { name: 'mtu', type: 'number' },
    { name: 'description', type: 'text' },
    { name: 'active', type: 'switch' },
  ]
  return {
    resource: interfaces,
    text: 'network:interface',
    list: paths.interfaces,
    fields,
    shape: interfaceShape,
    guard: ownConnection,
  }
}

/** The form for a new interface. A tunnel without a zone can fill it in. */
export function Create() {
  const draft = useDraft()
  return <CreateDrawer {...useForm()} defaults={{ ...defaults, ...draft }} />
}

export function Edit() {
  return (
    <EditDrawer
      {...useForm()}
      name={(row) => row.name}
      above={(row) => (
        <div className={classes.above}>
          <LiveFacts row={row} />
          {row.type !== 'wireguard' && <Addresses row={row} />}
        </div>
      )}
    />
  )
}

/** The addresses of an interface. Those of a tunnel belong to the tunnel. */
function Addresses({ row }: { row: NetworkInterface }) {
  const { t } = useTranslation('network')
  const { data = [] } = useQuery(addressesQuery)
  const link = useLinks().links.find(({ name }) => name === row.name)
  const others = link?.addresses.filter(({ kind }) => kind === 'manual').map(({ text }) => text) ?? []
  return (
    <SubList
      resource={ipAddresses}
      rows={data.filter(({ interface_id }) => interface_id === row.id)}
      text="network:address"
      columns={[
        {
          key: 'address',
          header: t('address.address.label'),
          cell: ({ address, prefix }) => <span className="mono">{`${address}/${prefix}`}</span>,
        },
        { key: 'description', header: t('address.description.label'), cell: ({ description }) => description || '–' },
      ]}
      fields={addressFields}
      defaults={addressDefaults}
      shape={{ read: (values) => values, write: (values) => ({ ...values, interface_id: row.id }) }}
      name={({ address, prefix }) => `${address}/${prefix}`}
      guard={ownConnection}
    >
      {others.length > 0 && <p className="soft">{t('address.others', { addresses: others.join(', ') })}</p>}
    </SubList>
  )
}

/** The interface's live state in the kernel. */
function LiveFacts({ row }: { row: NetworkInterface }) {
  const { t } = useTranslation('network')
  const { links, rates } = useLinks()
  const link = links.find(({ name }) => name === row.name)
  const live = link?.live
  if (!link || !live) return null
  const rate = rates[row.name]
  const total = (sum: number, packets: number, drop: number) =>
    t('live.total', { bytes: bytes(sum), packets: count(packets), drop: count(drop) })
  return (
    <section className={classes.live} aria-label={t('live.title')}>
      <h3>{t('live.title')}</h3>
      <Facts
        facts={[
          [
            t('interface.state'),
            <Badge key="s" tone={toneOf(link)}>
              {t(`states.${link.state}`)}
            </Badge>,
          ],
          [
            t('live.mac'),
            <span key="m" className="mono">
              {live.address || '–'}
            </span>,
          ],
          [t('interface.mtu.label'), live.mtu],
          [t('live.now'), rate ? t('picture.arrows', rateWords(rate)) : '–'],
          [t('live.received'), total(live.rx_bytes, live.rx_packets, live.rx_drop)],
          [t('live.sent'), total(live.tx_bytes, live.tx_packets, live.tx_drop)],
        ]}
      />
    </section>
  )
}

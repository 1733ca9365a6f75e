import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { changeSet } from '../../api/resource'
import { addressGroups } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { Client } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { usualIntent } from '../../kit/change/intent'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Facts } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { toast, toastApplied } from '../../kit/state/toast'
import { count } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { dotted, paths } from '../../paths'
import { usableName } from '../dhcp/subnet'
import { addressesOf, nameOf, unblockOperations } from './block'
import classes from './Clients.module.css'
import { Make, Presence, Traffic } from './marks'
import { clientQuery, disconnect } from './resources'

/** One client: what is known about it, and what can be done with it. */
export function Detail() {
  const { t } = useTranslation('clients')
  const id = dotted((useParams({ strict: false }) as { id: string }).id)
  const query = useQuery(clientQuery(id))
  return (
    <DetailDrawer title={query.data ? nameOf(query.data) : t('client.one')} back={paths.clients}>
      <Loaded query={query} height={240}>
        {(client) => (
          <div className={classes.detail}>
            <Blocked client={client} />
            <Known client={client} />
            <Actions client={client} />
          </div>
        )}
      </Loaded>
    </DetailDrawer>
  )
}

function Blocked({ client: { blocked_by } }: { client: Client }) {
  const { t } = useTranslation('clients')
  if (blocked_by.length === 0) return null
  return (
    <Notice tone="bad" title={t('blocked.title')}>
      {blocked_by.map(({ address, rule_id, rule_name }) => (
        <div key={`${address} ${rule_id}`}>
          <span className="mono">{address}</span>: <Link to={paths.rule(rule_id)}>{rule_name}</Link>
        </div>
      ))}
    </Notice>
  )
}

function Known({ client }: { client: Client }) {
  const { t } = useTranslation('clients')
  const mono = (text: string) => <span className="mono">{text || '–'}</span>
  const { addresses, networks, sent_bytes: sent } = client
  return (
    <Facts
      facts={[
        [t('client.state'), <Presence key="state" client={client} />],
        [t('client.name'), client.name ? `${client.name} (${t(`client.namedBy.${client.named_by}`)})` : '–'],
        [
          t('client.addresses'),
          addresses.length > 0
            ? addresses.map(({ address, interface: link }) => (
                <div key={`${address} ${link}`} className="mono">
                  {address}
                </div>
              ))
            : '–',
        ],
        ...(networks.length > 0
          ? [[t('client.networks'), mono(networks.join(', '))] as [string, React.ReactNode]]
          : []),
        [t('client.mac'), mono(client.mac)],
        [t('client.vendor'), <Make key="vendor" client={client} />],
        [t('client.interface'), client.interface ? `${client.interface} · ${client.zone || t('client.noZone')}` : '–'],
        [t('client.user'), client.user || '–'],
        [t('client.lease'), client.lease_expires_at ? <Time key="lease" at={client.lease_expires_at} /> : '–'],
        [t('client.connections'), count(client.connections)],
        [
          t('client.traffic'),
          sent === null ? (
            <span key="uncounted" title={t('client.uncountedHelp')}>
              {t('client.uncounted')}
            </span>
          ) : (
            <Traffic key="traffic" client={client} />
          ),
        ],
        [t('client.source'), client.sources.map((source) => t(`client.sources.${source}`)).join(', ')],
      ]}
    />
  )
}

function Actions({ client }: { client: Client }) {
  const { t } = useTranslation('clients')
  const canEdit = useCanEdit()
  const [address] = addressesOf(client)
  return (
    <section className={classes.actions} aria-label={t('actions')}>
      {canEdit && <Name client={client} />}
      {address && (
        <>
          <Button
            component={Link}
            to={paths.explain}
            search={{ source: address, ...(client.interface && { in: `interface:${client.interface}` }) } as never}
            variant="default"
          >
            {t('explain')}
          </Button>
          <Button
            component={Link}
            to={paths.diagnosticsConnections}
            search={{ source: address } as never}
            variant="default"
          >
            {t('connections')}
          </Button>
        </>
      )}
      {canEdit && address && <Bar client={client} />}
    </section>
  )
}

/** The form where its name is set; a reservation also fixes its address. */
function Name({ client }: { client: Client }) {
  const { t } = useTranslation('clients')
  const { reservation_id, subnet_id, tunnel_id, peer_id, mac, name, addresses } = client
  if (peer_id && tunnel_id) return <To to={paths.peer(tunnel_id, peer_id)} label={t('rename')} />
  if (reservation_id) return <To to={paths.dhcpReservation(reservation_id)} label={t('rename')} />
  const ip = addresses.map(({ address }) => address).find((address) => address.includes('.'))
  if (!subnet_id || !mac || !ip) return null
  const draft = { subnet_id, mac, ip, hostname: usableName(name) }
  return <To to={paths.dhcpReservationNew} label={t('reserve')} draft={draft} />
}

const To = ({ to, label, draft }: { to: string; label: string; draft?: object }) => (
  <Button component={Link} to={to} state={(draft && { draft }) as never} variant="default">
    {label}
  </Button>
)

/** Blocks or unblocks a client. Unblocking only affects the group of blocked clients. */
function Bar({ client }: { client: Client }) {
  const { t } = useTranslation('clients')
  const queries = useQueryClient()
  const name = nameOf(client)
  const again = () => queries.invalidateQueries({ queryKey: ['clients'] })
  const cut = () =>
    confirm({
      title: t('disconnect.title', { name }),
      text: t('disconnect.text'),
      verb: t('disconnect.verb'),
      danger: true,
      act: async () => {
        const { ended } = await disconnect(client.id)
        toast('live', t('disconnect.done', { count: ended }))
        await again()
      },
    })
  const intent = usualIntent(addressGroups.kind)
  const unblock = () =>
    confirm({
      title: t('unblock.title', { name }),
      text: t('unblock.text'),
      verb: t('unblock.verb'),
      act: async () => {
        const [groups, usage] = await Promise.all([addressGroups.list(), unwrap(http.GET('/firewall/usage'))])
        const { applied } = await changeSet(unblockOperations(client, groups, usage), intent)
        toastApplied(t('unblock.done', { name }), applied)
        await again()
      },
    })
  return (
    <>
      {client.connections > 0 && (
        <Button variant="default" onClick={cut}>
          {t('disconnect.button')}
        </Button>
      )}
      {client.blocked_by.some(({ group_id }) => group_id) && (
        <Button variant="default" onClick={unblock}>
          {t('unblock.button')}
        </Button>
      )}
      {client.blocked_by.length === 0 && (
        <Button component={Link} to={paths.clientBlock(client.id)} color="red.8" variant="outline">
          {t('block.button')}
        </Button>
      )}
    </>
  )
}

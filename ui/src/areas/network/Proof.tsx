import '../proxy/texts'
import '../tunnels/texts'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { backends, peers } from '../../api/resources'
import type { FirstSite, ProposedNetwork } from '../../api/types'
import { optionalText } from '../../i18n/i18n'
import type { Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { Waiting } from '../../kit/state/Waiting'
import { paths } from '../../paths'
import { leasesQuery } from '../dhcp/resources'
import { checkCode, useLive } from '../proxy/health'
import { PeerConfig } from '../tunnels/Config'
import { peersQuery, tunnelsQuery } from '../tunnels/resources'
import classes from './Adopt.module.css'

/** The interval while something does not work yet, in milliseconds. */
const again = 5000
/** Lookups are audited, so one that keeps failing is repeated ever more slowly, up to this interval. */
const seldom = 300_000

/** The name to look up: it is reserved and always exists. */
const probe = 'example.com'

/** What was set up. */
export interface Done {
  networks: readonly ProposedNetwork[]
  site: FirstSite | undefined
  changes: readonly { kind: string; id: string }[]
}

/** Checks that the new networks work by asking each service. */
export function Proof({ networks, site, changes }: Done) {
  const { t } = useTranslation('network')
  const made = (kind: string) => changes.find((change) => change.kind === kind)?.id
  const peer = made(peers.kind)
  const dns = networks.find((one) => one.dns)?.addresses[0]?.split('/')[0]
  const leases = networks.filter((one) => one.dhcp)
  return (
    <div className={classes.step}>
      <p className={classes.lead}>{t('proof.lead')}</p>
      <ul className={classes.proof} aria-label={t('proof.title')}>
        {dns && <Names server={dns} />}
        {leases.length > 0 && <Leases ranges={leases.map((one) => `${one.range_start} – ${one.range_end}`)} />}
        {networks.some((one) => one.ntp) && <Clock />}
        {site && <Answers site={site} backend={made(backends.kind)} />}
      </ul>
      {peer && <Device id={peer} />}
      <div className={classes.actions}>
        {!site && (
          <Button component={Link} to={paths.siteNew} variant="default">
            {t('proof.publish')}
          </Button>
        )}
        {!peer && (
          <Button component={Link} to={paths.tunnelNew} variant="default">
            {t('proof.vpn')}
          </Button>
        )}
        <Button component={Link} to={paths.interfaces}>
          {t('proof.close')}
        </Button>
      </div>
    </div>
  )
}

function Line({ name, tone, children }: { name: string; tone: Tone; children: ReactNode }) {
  return (
    <li>
      <Badge tone={tone}>{name}</Badge>
      <span>{children}</span>
    </li>
  )
}

/** Looks up a name at the address that the clients use. */
function Names({ server }: { server: string }) {
  const { t } = useTranslation('network')
  const { data } = useQuery({
    queryKey: ['network', 'proof', server],
    queryFn: async () => {
      const { output } = await unwrap(http.POST('/diagnostics/dig', { body: { target: probe, server } as never }))
      return /status: (\w+)/.exec(output)?.[1] ?? 'TIMEOUT'
    },
    refetchInterval: ({ state: { data, dataUpdateCount, errorUpdateCount } }) =>
      data === 'NOERROR' ? false : Math.min(again * 2 ** (dataUpdateCount + errorUpdateCount - 1), seldom),
  })
  const tone = data === undefined ? 'off' : data === 'NOERROR' ? 'live' : 'warn'
  return (
    <Line name="DNS" tone={tone}>
      {t(`proof.dns.${tone}`, { name: probe, server, status: data })}
    </Line>
  )
}

function Leases({ ranges }: { ranges: string[] }) {
  const { t } = useTranslation('network')
  const { data } = useQuery(leasesQuery())
  const state = !data ? 'off' : data.error ? 'warn' : data.total > 0 ? 'live' : 'ready'
  return (
    <Line name="DHCP" tone={state === 'ready' ? 'live' : state}>
      {t(`proof.dhcp.${state}`, { count: data?.total ?? 0, error: data?.error, ranges: ranges.join(', ') })}
    </Line>
  )
}

function Clock() {
  const { t } = useTranslation('network')
  const { data } = useQuery({
    queryKey: ['ntp', 'status'],
    queryFn: () => unwrap(http.GET('/ntp/status')),
    refetchInterval: again,
  })
  const tone = !data ? 'off' : data.synchronised ? 'live' : 'warn'
  return (
    <Line name="NTP" tone={tone}>
      {t(`proof.ntp.${tone}`, { source: data?.source, stratum: data?.stratum })}
    </Line>
  )
}

/** Whether the new site's server answers the proxy. */
function Answers({ site, backend = '' }: { site: FirstSite; backend?: string }) {
  const { t } = useTranslation('network')
  const row = useLive().server({ backend_id: backend, name: 'server-1' })
  const code = row ? checkCode(row) : ''
  // A server counts as up until its first check has ended.
  const tone = !row || code === '' || code === 'INI' ? 'off' : row.status === 'UP' ? 'live' : 'warn'
  return (
    <Line name={t('proof.web')} tone={tone}>
      {t(`proof.site.${tone}`, { ...site, found: optionalText(`proxy:checks.${code}`) ?? code })}
    </Line>
  )
}

/** What the first VPN device needs. */
function Device({ id }: { id: string }) {
  const { t } = useTranslation('network')
  const peer = useQuery(peersQuery).data?.find((one) => one.id === id)
  const tunnel = useQuery(tunnelsQuery).data?.find((one) => one.id === peer?.interface_id)
  if (!peer || !tunnel) return <Waiting height={320} />
  return (
    <section className={classes.step} aria-label={peer.name}>
      <h3 className={classes.device}>{t('proof.device', { name: peer.name })}</h3>
      <PeerConfig tunnel={tunnel} peer={peer} />
    </section>
  )
}

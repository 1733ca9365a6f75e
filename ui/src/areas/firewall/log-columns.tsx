import { IconRoute, IconShieldPlus } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { rules } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { Column } from '../../kit/list/DataTable'
import { RowMenu } from '../../kit/list/RowMenu'
import { bytes, exactTime } from '../../kit/text/format'
import { paths } from '../../paths'
import { clientsQuery } from '../clients/resources'
import { useBook, useUsage } from './book'
import { addressNames, draftOf, type Numbered, place, questionOf, type Surroundings } from './log-logic'
import { ActionBadge } from './marks'

const timeOfDay = { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as const

const dayOfYear = { day: 'numeric', month: 'short' } as const
const sameDay = (moment: string) => new Date(moment).toDateString() === new Date().toDateString()

/** The columns for a packet: what happened to it, by which rule, its source and its destination. */
export function useLogColumns(): Column<Numbered>[] {
  const { t } = useTranslation('firewall')
  const { data = [] } = useQuery({ queryKey: [rules.kind], queryFn: rules.list })
  const { zones, services, addresses } = useBook().lists
  const clients = useQuery({ ...clientsQuery(''), refetchInterval: 60_000 }).data?.clients
  const known = useMemo(() => addressNames(clients ?? [], addresses), [clients, addresses])
  const usage = useUsage()
  const names = useMemo(() => new Map(data.map(({ id, name }) => [id, name])), [data])
  // Stable while events arrive, so that only new rows are drawn.
  return useMemo(
    () => [
      {
        key: 'at',
        header: t('log.at'),
        width: '96px',
        cell: ({ timestamp }) => (
          <time dateTime={timestamp} title={exactTime(timestamp)}>
            {sameDay(timestamp) ? '' : `${new Date(timestamp).toLocaleDateString('en-GB', dayOfYear)} `}
            {new Date(timestamp).toLocaleTimeString('en-GB', timeOfDay)}
          </time>
        ),
      },
      {
        key: 'action',
        header: t('rule.action.label'),
        width: '78px',
        cell: ({ action }) => <ActionBadge action={action} />,
      },
      {
        key: 'rule',
        header: t('log.rule'),
        cell: ({ rule_id: id, chain }) =>
          id ? (
            <Link to={paths.rule(id)}>{names.get(id) ?? id}</Link>
          ) : (
            <span className="soft">{t('log.default', { chain })}</span>
          ),
      },
      {
        key: 'proto',
        header: t('log.proto'),
        width: '54px',
        cell: ({ proto }) => <span className="mono">{proto}</span>,
      },
      {
        key: 'source',
        header: t('rule.sections.src'),
        width: 'minmax(0, 1.3fr)',
        cell: ({ source, source_port: port }) => <Place address={source} port={port} known={known} />,
      },
      {
        key: 'destination',
        header: t('rule.sections.dst'),
        width: 'minmax(0, 1.3fr)',
        cell: ({ destination, destination_port: port }) => <Place address={destination} port={port} known={known} />,
      },
      {
        key: 'interface',
        header: t('log.interface'),
        width: 'minmax(0, 0.8fr)',
        cell: ({ interface: into, out_interface: out }) => (
          <span className="mono">{out ? `${into} → ${out}` : into || '–'}</span>
        ),
      },
      { key: 'size', header: t('log.size'), width: '64px', align: 'right', cell: ({ size }) => bytes(size) },
      {
        key: 'menu',
        header: '',
        width: '26px',
        cell: (event) => <EventMenu event={event} around={() => ({ zones, services, usage })} />,
      },
    ],
    [t, names, known, zones, services, usage],
  )
}

interface PlaceProps {
  address: string
  port: number | null | undefined
  known: ReadonlyMap<string, string>
}

/** A packet's source or destination, with its name. */
function Place({ address, port, known }: PlaceProps) {
  const name = known.get(address)
  return (
    <>
      <span className="mono">{place(address, port)}</span>
      {name && <span className="soft"> {name}</span>}
    </>
  )
}

function EventMenu({ event, around }: { event: Numbered; around: () => Surroundings }) {
  const { t } = useTranslation('firewall')
  const navigate = useNavigate()
  const canEdit = useCanEdit()
  const makeRule = () => void navigate({ to: paths.ruleNew, state: { draft: draftOf(event, around()) } } as never)
  return (
    <RowMenu
      name={`${event.proto} ${event.source} → ${event.destination}`}
      items={() => [
        ...(canEdit ? [{ label: t('log.makeRule'), icon: IconShieldPlus, act: makeRule }] : []),
        {
          label: t('log.explain'),
          icon: IconRoute,
          act: () => void navigate({ to: paths.explain, search: questionOf(event) } as never),
        },
      ]}
    />
  )
}

import { useQuery } from '@tanstack/react-query'
import { Outlet, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { mutes } from '../../api/resources'
import type { AlertMute } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { muteShape, spans } from './mute-form'
import { kindsQuery } from './resources'

/** Muted alerts: no channel gets them for a while. */
export default function Mutes() {
  const { t } = useTranslation('alerts')
  const columns: Column<AlertMute>[] = [
    {
      key: 'kind',
      header: t('mute.kind.label'),
      cell: (row) => <span className="mono">{row.kind}</span>,
      sortBy: (row) => row.kind,
    },
    {
      key: 'reason',
      header: t('mute.reason.label'),
      width: 'minmax(0, 2fr)',
      cell: (row) => row.reason || <span className="soft">–</span>,
    },
    {
      key: 'until',
      header: t('mute.ends'),
      width: '120px',
      align: 'right',
      cell: (row) => <Time at={row.until} />,
      sortBy: (row) => row.until,
    },
  ]
  return (
    <>
      <ResourceList
        resource={mutes}
        text="alerts:mute"
        columns={columns}
        searchText={(row) => [row.kind, row.reason].join(' ')}
        rowLink={(row) => paths.alertMute(row.id)}
        createLink={paths.alertMuteNew}
      />
      <Outlet />
    </>
  )
}

const form = { resource: mutes, text: 'alerts:mute', list: paths.alertMutes, shape: muteShape(), preview: false }

function useFields(): Fields<'alert.mute', 'hours'> {
  const kinds = useQuery(kindsQuery)
  const choices = (kinds.data ?? [])
    .filter(({ mutable }) => mutable)
    .map(({ kind, meaning }) => ({ value: kind, label: `${kind}: ${meaning}` }))
  return [
    { name: 'kind', type: 'select', choices },
    { name: 'hours', type: 'choice', options: spans, covers: ['until'] },
    { name: 'reason', type: 'text' },
  ]
}

export function Create() {
  const { kind = null } = useSearch({ strict: false }) as { kind?: string }
  return <CreateDrawer {...form} fields={useFields()} defaults={{ kind, hours: '24' }} />
}

export function Edit() {
  return <EditDrawer {...form} fields={useFields()} fixed={() => ['kind']} name={(row) => row.kind} />
}

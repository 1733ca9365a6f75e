import { Button } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { channels } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { AlertChannel, AlertTested } from '../../api/types'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { OnOff } from '../../kit/state/StateBadge'
import { toast, toastFault } from '../../kit/state/toast'
import { paths } from '../../paths'
import { channelFields, channelShape, followPort } from './channel-form'

/** The alert channels. */
export default function Channels() {
  const { t } = useTranslation('alerts')
  const canEdit = useCanEdit()
  const test = useTest()
  const columns: Column<AlertChannel>[] = [
    { key: 'who', header: t('channel.who'), cell: (row) => nameOf(row), sortBy: (row) => nameOf(row) },
    {
      key: 'kind',
      header: t('channel.kind.label'),
      width: '100px',
      cell: (row) => t(`channel.kind.options.${row.kind}`),
      sortBy: (row) => row.kind,
    },
    {
      key: 'target',
      header: t('channel.target.label'),
      width: 'minmax(0, 2fr)',
      cell: (row) => <span className="mono">{row.target}</span>,
    },
    {
      key: 'min',
      header: t('channel.min_severity.label'),
      width: '120px',
      cell: (row) => t(`channel.min_severity.options.${row.min_severity}`),
    },
    { key: 'on', header: t('channel.on'), width: '80px', cell: (row) => <OnOff on={row.active} /> },
  ]
  if (canEdit) {
    columns.push({
      key: 'test',
      header: '',
      width: '76px',
      align: 'right',
      cell: (row) => (
        <Button
          size="compact-sm"
          variant="subtle"
          aria-label={`${t('channel.test')}: ${nameOf(row)}`}
          loading={test.isPending && test.variables === row.id}
          onClick={() => test.mutate(row.id)}
        >
          {t('channel.test')}
        </Button>
      ),
    })
  }
  return (
    <>
      <ResourceList
        resource={channels}
        text="alerts:channel"
        columns={columns}
        searchText={(row) => [row.name, row.kind, row.target].join(' ')}
        rowLink={(row) => paths.alertChannel(row.id)}
        createLink={paths.alertChannelNew}
        beside={
          <Button
            variant="default"
            loading={test.isPending && test.variables === null}
            onClick={() => test.mutate(null)}
          >
            {t('channel.testAll')}
          </Button>
        }
      />
      <Outlet />
    </>
  )
}

const nameOf = ({ name, kind, target }: AlertChannel) => {
  if (name) return name
  return kind === 'webhook' && URL.canParse(target) ? new URL(target).host : target
}

/** Sends a test to one channel or to all that are on, and shows the result. */
function useTest() {
  const { t } = useTranslation('alerts')
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (id: string | null): Promise<AlertTested> =>
      unwrap(id === null ? http.POST('/alerts/test') : http.POST('/alerts/{id}/test', { params: { path: { id } } })),
    onSuccess: ({ results }) => {
      const failed = results.filter(({ ok }) => !ok)
      for (const { channel, error } of failed) toast('bad', t('channel.testFailed', { name: channel }), error)
      const [first] = results
      if (!first) toast('warn', t('channel.noneToTest'))
      else if (failed.length === 0 && results.length === 1) toast('live', t('channel.tested', { name: first.channel }))
      else if (failed.length === 0) toast('live', t('channel.testedAll', { count: results.length }))
    },
    onError: toastFault,
    onSettled: () => queries.invalidateQueries({ queryKey: ['alert', 'events'] }),
  })
}

const form = {
  resource: channels,
  text: 'alerts:channel',
  list: paths.alertChannels,
  shape: channelShape,
  preview: false,
}

export function Create() {
  const { t } = useTranslation('alerts')
  return <CreateDrawer {...form} fields={channelFields(t)} follow={followPort} defaults={{ kind: 'webhook' }} />
}

export function Edit() {
  const { t } = useTranslation('alerts')
  return <EditDrawer {...form} fields={channelFields(t)} name={nameOf} />
}

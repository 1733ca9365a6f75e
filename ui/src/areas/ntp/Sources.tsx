import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { NtpSource } from '../../api/types'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { Facts, Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice, type Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { duration, offset } from '../../kit/text/format'
import { paths } from '../../paths'
import { OffsetPicture, ReachPicture } from './pictures'

const tones: Record<NtpSource['state'], Tone> = {
  selected: 'live',
  combined: 'live',
  'not combined': 'off',
  unreachable: 'bad',
  falseticker: 'bad',
  jittery: 'warn',
  unusable: 'warn',
}

/** What chronyd reports: its own state, and each of its sources. */
export default function Sources() {
  const { t } = useTranslation('ntp')
  const canEdit = useCanEdit()
  const status = useQuery({
    queryKey: ['ntp', 'status'],
    queryFn: () => unwrap(http.GET('/ntp/status')),
    refetchInterval: 5000,
  })
  const sources = useQuery({
    queryKey: ['ntp', 'sources'],
    queryFn: () => unwrap(http.GET('/ntp/sources')),
    refetchInterval: 5000,
  })

  return (
    <>
      <Panel title={t('status.title')}>
        <Loaded query={status} height={42}>
          {(now) =>
            now.error ? (
              <Notice tone="warn" title={t('status.unknown')}>
                {now.error}
              </Notice>
            ) : (
              <Facts
                facts={[
                  [
                    t('status.clock'),
                    <Badge key="s" tone={now.synchronised ? 'live' : 'warn'}>
                      {t(now.synchronised ? 'status.synchronised' : 'status.free')}
                    </Badge>,
                  ],
                  [t('status.offset'), offset(now.offset_seconds)],
                  [t('status.stratum'), now.stratum],
                  [
                    t('status.source'),
                    <span key="s" className="mono">
                      {now.source || '–'}
                    </span>,
                  ],
                  [
                    t('status.reference'),
                    <span key="r" className="mono">
                      {now.reference_id}
                    </span>,
                  ],
                  [t('status.leap'), now.leap_status],
                ]}
              />
            )
          }
        </Loaded>
      </Panel>
      <Panel title={t('sources.title')} flush>
        <Loaded query={sources} height={160}>
          {({ sources: list, error }) => {
            if (error) {
              return (
                <Notice tone="warn" title={t('status.unknown')}>
                  {error}
                </Notice>
              )
            }
            if (list.length === 0) {
              return (
                <Notice tone="off" action={canEdit && <AddServer />}>
                  {t('sources.none')}
                </Notice>
              )
            }
            return <SourceTable sources={list} />
          }}
        </Loaded>
      </Panel>
    </>
  )
}

function AddServer() {
  const { t } = useTranslation('ntp')
  return (
    <Button component={Link} to={paths.ntpServerNew} size="compact-sm" variant="default">
      {t('pool.create')}
    </Button>
  )
}

function SourceTable({ sources }: { sources: NtpSource[] }) {
  const { t } = useTranslation('ntp')
  const widest = Math.max(...sources.map((one) => Math.abs(one.offset_seconds) + one.error_seconds), 1e-6)
  const columns: Column<NtpSource>[] = [
    {
      key: 'address',
      header: t('sources.address'),
      width: 'minmax(0, 1.6fr)',
      cell: (row) => <span className="mono">{row.address}</span>,
    },
    {
      key: 'state',
      header: t('sources.state'),
      width: '120px',
      cell: (row) => <Badge tone={tones[row.state]}>{t(`sources.states.${row.state}`)}</Badge>,
    },
    { key: 'reach', header: t('sources.reach'), width: '84px', cell: (row) => <ReachPicture reach={row.reach} /> },
    {
      key: 'picture',
      header: t('sources.picture'),
      width: 'minmax(90px, 1fr)',
      // Without an answer there is nothing to draw.
      cell: (row) =>
        row.reach > 0 && <OffsetPicture offset={row.offset_seconds} error={row.error_seconds} widest={widest} />,
    },
    {
      key: 'offset',
      header: t('sources.offset'),
      width: '138px',
      align: 'right',
      cell: (row) => (row.reach > 0 ? `${offset(row.offset_seconds)} ± ${offset(row.error_seconds, false)}` : '–'),
    },
    { key: 'stratum', header: t('sources.stratum'), width: '54px', align: 'right', cell: (row) => row.stratum },
    { key: 'poll', header: t('sources.poll'), width: '60px', align: 'right', cell: (row) => `${2 ** row.poll} s` },
    {
      key: 'heard',
      header: t('sources.lastRx'),
      width: '80px',
      align: 'right',
      cell: (row) => (row.last_rx_seconds === null ? '–' : duration(row.last_rx_seconds)),
    },
  ]
  return <DataTable label={t('sources.title')} columns={columns} rows={sources} rowKey={(row) => row.address} />
}

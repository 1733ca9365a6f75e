import './texts'
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { autoUpdate } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import { nodesQuery } from '../../api/state'
import type { PackageVersions } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { Flag } from '../../kit/form/Flag'
import { DataTable } from '../../kit/list/DataTable'
import { Page, Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { toastFault } from '../../kit/state/toast'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { LastUpgrade } from './LastUpgrade'
import { standingOf, standingTone } from './progress'
import { upgradeQuery, versionsQuery } from './resources'
import classes from './Updates.module.css'

export default function UpdatesPage() {
  const { t } = useTranslation('updates')
  const versions = useQuery(versionsQuery)
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Panel title={t('gateway.title')}>
        <Loaded query={versions} height={40}>
          {(loaded) => <Offer versions={loaded} />}
        </Loaded>
      </Panel>
      <LastUpgrade />
      <Panel title={t('auto.title')}>
        <Flag text="updates:auto" flag={autoUpdate} />
      </Panel>
      <Panel title={t('versions.title')} aside={versions.data && <Checked versions={versions.data} />} flush>
        <Loaded query={versions} height={320}>
          {(loaded) => <Packages versions={loaded} />}
        </Loaded>
      </Panel>
    </Page>
  )
}

/** The available version of the gateway, and the button that installs it. */
function Offer({ versions }: { versions: PackageVersions }) {
  const { t } = useTranslation('updates')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const last = useQuery(upgradeQuery)
  const { data: nodes = [] } = useQuery(nodesQuery)
  const own = versions.packages[0]
  if (!own) return <p>{versions.error}</p>
  if (!versions.packaged) return <p>{t('gateway.notPackaged')}</p>
  if (!own.upgradable) return <p>{t('gateway.current', { version: own.installed })}</p>
  const { installed: from, available: to } = own
  const ask = () =>
    confirm({
      title: t('confirm.title', { version: to }),
      text: (
        <>
          <p>{t('confirm.away')}</p>
          <p>{t('confirm.backup', { from })}</p>
        </>
      ),
      verb: t('confirm.verb'),
      act: async () => {
        const begun = await unwrap(http.POST('/system/upgrade', { body: { version: to } }))
        queries.setQueryData(upgradeQuery.queryKey, begun)
      },
    })
  return (
    <div className={classes.offer}>
      <p>{t('gateway.available', { from, to })}</p>
      {nodes.length > 1 && (
        <Button component={Link} to={paths.cluster} variant="default">
          {t('gateway.cluster')}
        </Button>
      )}
      {canEdit && nodes.length < 2 && (
        <Button onClick={ask} disabled={last.data?.state === 'running'}>
          {t('gateway.verb', { version: to })}
        </Button>
      )}
    </div>
  )
}

/** The age of apt's package lists. */
function Checked({ versions }: { versions: PackageVersions }) {
  const { t } = useTranslation('updates')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const refresh = useMutation({
    mutationFn: () => unwrap(http.POST('/system/package-versions/refresh')),
    onSuccess: (begun) => queries.setQueryData(versionsQuery.queryKey, begun),
    onError: toastFault,
  })
  return (
    <span className={classes.checked}>
      <span className="soft">
        {t('versions.checked')} <Time at={versions.refreshed_at} />
      </span>
      {canEdit && versions.packaged && (
        <Button
          size="compact-sm"
          variant="default"
          loading={refresh.isPending}
          disabled={versions.refreshing}
          onClick={() => refresh.mutate()}
        >
          {t(versions.refreshing ? 'versions.refreshing' : 'versions.refresh')}
        </Button>
      )}
    </span>
  )
}

function Packages({ versions }: { versions: PackageVersions }) {
  const { t } = useTranslation('updates')
  const version = (text: string) =>
    text ? <span className="mono">{text}</span> : <span className="soft">{t('versions.none')}</span>
  return (
    <>
      {versions.refresh_error && (
        <Notice tone="warn" title={t('versions.refreshFailed')}>
          {versions.refresh_error}
        </Notice>
      )}
      {versions.error && <Notice tone="warn" title={versions.error} />}
      <DataTable
        label={t('versions.title')}
        rows={versions.packages}
        rowKey={(row) => row.name}
        columns={[
          { key: 'name', header: t('versions.package'), cell: (row) => row.name },
          { key: 'installed', header: t('versions.installed'), cell: (row) => version(row.installed) },
          { key: 'available', header: t('versions.available'), cell: (row) => version(row.available) },
          {
            key: 'status',
            header: t('versions.status'),
            cell: (row) => {
              const standing = standingOf(row)
              return <Badge tone={standingTone[standing]}>{t(`versions.standing.${standing}`)}</Badge>
            },
          },
        ]}
      />
      <p className={`soft ${classes.note}`}>{t('versions.daemons')}</p>
    </>
  )
}

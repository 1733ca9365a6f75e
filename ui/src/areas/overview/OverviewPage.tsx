import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { domains, interfaces } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import { healthQuery } from '../../api/state'
import { auditStream, componentStream } from '../../api/streams'
import { addTexts } from '../../i18n/i18n'
import { DataTable } from '../../kit/list/DataTable'
import { LiveTable } from '../../kit/list/LiveTable'
import { Page, Panel } from '../../kit/page/Page'
import { componentName } from '../../kit/state/condition'
import { LiveMark } from '../../kit/state/LiveMark'
import { Loaded } from '../../kit/state/Loaded'
import { StateBadge } from '../../kit/state/StateBadge'
import { useStream } from '../../kit/state/useStream'
import { duration } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { AuditList } from '../audit/AuditList'
import { licenseQuery } from '../license/resources'
import { needsCare } from '../license/standing'
import en from './en.json'
import classes from './Overview.module.css'
import { ResourceMeters } from './ResourceMeters'
import { ServiceBadge, UnknownServices } from './ServiceBadge'

addTexts('overview', en)

const AdoptOffer = lazy(() => import('../network/AdoptOffer'))
const LicenseNotice = lazy(() => import('../license/LicenseNotice'))
const OperationsMeters = lazy(() => import('./OperationsMeters'))
const ProxyMeters = lazy(() => import('./ProxyMeters'))
const SecurityMeters = lazy(() => import('./SecurityMeters'))

/** What is healthy, what changed and what is not live, without a click. */
export default function OverviewPage() {
  const { t } = useTranslation('overview')
  const health = useQuery(healthQuery)
  const services = useQuery({
    queryKey: ['system', 'services'],
    queryFn: () => unwrap(http.GET('/system/services')),
    refetchInterval: 10_000,
  })
  const declared = useQuery({ queryKey: [interfaces.kind], queryFn: interfaces.list })
  const sites = useQuery({ queryKey: [domains.kind], queryFn: domains.list })
  const canEdit = useCanEdit()
  const license = useQuery({ ...licenseQuery, enabled: canEdit })
  const components = useStream(componentStream)
  const audit = useStream(auditStream)
  // A ping or a lookup changes nothing.
  const changes = audit.items.filter(({ action }) => !action.startsWith('diagnostics.'))
  const { hostname, version, os, kernel } = health.data ?? {}

  return (
    <Page title={hostname ?? t('title')} lead={health.data && `${t('common:product')} ${version} · ${os} · ${kernel}`}>
      {declared.data?.length === 0 && (
        <Suspense>
          <AdoptOffer first />
        </Suspense>
      )}
      {canEdit && license.data && needsCare(license.data) && (
        <Suspense>
          <LicenseNotice license={license.data} />
        </Suspense>
      )}
      <ResourceMeters />
      {sites.data && sites.data.length > 0 && (
        <Suspense>
          <ProxyMeters />
        </Suspense>
      )}
      <Suspense>
        <SecurityMeters />
      </Suspense>
      <Suspense>
        <OperationsMeters />
      </Suspense>
      <div className={classes.columns}>
        <LiveTable
          title={t('components.title')}
          stream={components}
          rowKey={(row) => row.name}
          rowLink={(row) => paths.component(row.name)}
          columns={[
            { key: 'name', header: t('components.name'), cell: (row) => componentName(row.name) },
            { key: 'state', header: t('components.state'), cell: (row) => <StateBadge component={row} /> },
            {
              key: 'applied',
              header: t('components.applied'),
              align: 'right',
              cell: (row) => <Time at={row.last_applied_at} />,
            },
          ]}
        />
        <Panel title={t('services.title')} flush>
          <Loaded query={services} height={120}>
            {({ services: list }) => (
              <>
                <UnknownServices services={list} />
                <DataTable
                  label={t('services.title')}
                  rows={list}
                  rowKey={(row) => row.name}
                  columns={[
                    { key: 'name', header: t('services.name'), cell: (row) => row.name },
                    {
                      key: 'active',
                      header: t('services.state'),
                      cell: (row) => <ServiceBadge active={row.active} detail={row.detail} />,
                    },
                    {
                      key: 'since',
                      header: t('services.since'),
                      align: 'right',
                      cell: (row) => (row.since ? duration((Date.now() - Date.parse(row.since)) / 1000) : '–'),
                    },
                  ]}
                />
              </>
            )}
          </Loaded>
        </Panel>
      </div>
      <Panel
        title={t('audit.title')}
        aside={
          <span className={classes.aside}>
            <LiveMark {...audit} />
            <Link to={paths.audit}>{t('audit.all')}</Link>
          </span>
        }
        flush
      >
        <AuditList entries={changes.slice(-12).reverse()} />
      </Panel>
    </Page>
  )
}

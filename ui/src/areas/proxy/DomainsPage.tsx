import './texts'
import { IconBarrierBlock, IconExternalLink, IconPencil, IconTrash } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { certificates, domains } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import { confirm } from '../../kit/change/confirm'
import { askToRemove } from '../../kit/change/remove'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowMenu } from '../../kit/list/RowMenu'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { Page } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { toastApplied, toastFault } from '../../kit/state/toast'
import { paths } from '../../paths'
import { AcmeOff } from '../certificates/AcmeOff'
import { certificateOf } from '../certificates/standing'
import type { Health } from './health'
import { DomainsMenu, MaintenanceNotice } from './Maintenance'
import { BackendCell, Mark, SiteCertificate } from './marks'
import classes from './Proxy.module.css'
import { Unasked } from './Unasked'
import { type Site, useDomains, useSites } from './useSites'

export { Edit } from './DomainForm'
export { Create } from './SiteForm'

const marks = ['maintenance', 'off', 'certificate'] as const
const healths: Health[] = ['up', 'degraded', 'down']

const marksOf = (site: Site) =>
  marks.filter(
    (mark) => ({ maintenance: site.maintenance, off: !site.active, certificate: site.standing !== 'valid' })[mark],
  )

export default function DomainsPage() {
  const { t } = useTranslation('proxy')
  const { join, live } = useSites()
  const columns = useColumns()
  return (
    <Page title={t('domain.title')} lead={t('domain.lead')} actions={<DomainsMenu />}>
      <MaintenanceNotice />
      <Unasked live={live} />
      <WithoutCertificate />
      <ResourceList
        resource={domains}
        join={join}
        text="proxy:domain"
        columns={columns}
        filters={[
          {
            key: 'health',
            label: t('domain.health'),
            options: healths.map((value) => ({ value, label: t(`healths.${value}.word`) })),
            of: (row) => row.health,
          },
          {
            key: 'mark',
            label: t('domain.mark'),
            options: marks.map((value) => ({ value, label: t(`domain.marks.${value}`) })),
            of: marksOf,
          },
        ]}
        searchText={(row) =>
          [
            row.name,
            row.backend?.name,
            row.notes,
            row.id,
            ...(row.backend?.servers ?? []).map((one) => one.address),
          ].join(' ')
        }
        rowLink={(row) => paths.domain(row.id)}
        createLink={paths.siteNew}
      />
      <Outlet />
    </Page>
  )
}

/** Says that ACME is off if a site has no certificate. */
function WithoutCertificate() {
  const { all } = useDomains()
  const { data } = useQuery({ queryKey: [certificates.kind], queryFn: certificates.list })
  return data && all.some((row) => row.active && !certificateOf(row, data)) ? <AcmeOff /> : null
}

function useColumns(): Column<Site>[] {
  const { t } = useTranslation('proxy')
  const canEdit = useCanEdit()
  const menu: Column<Site> = { key: 'menu', header: '', width: '26px', cell: (row) => <DomainMenu row={row} /> }
  return [
    {
      key: 'active',
      header: t('on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={domains} row={row} field="active" name={row.name} harmless />,
      sortBy: (row) => row.active,
    },
    {
      key: 'name',
      header: t('domain.name.label'),
      width: 'minmax(0, 1.6fr)',
      main: true,
      cell: (row) => <span className={row.active ? 'mono' : `mono ${classes.off}`}>{row.name}</span>,
      sortBy: (row) => row.name,
    },
    {
      key: 'backend',
      header: t('domain.backend_id.label'),
      width: 'minmax(0, 1.2fr)',
      cell: (row) => <BackendCell id={row.backend_id} name={row.backend?.name} health={row.health} />,
      sortBy: (row) => row.backend?.name,
    },
    {
      key: 'certificate',
      header: t('domain.certificate'),
      width: 'minmax(0, 1.1fr)',
      cell: (row) => <SiteCertificate site={row} />,
      sortBy: (row) => row.certificate?.expires_at,
    },
    {
      key: 'state',
      header: t('domain.mark'),
      cell: (row) => (
        <span className={classes.stack}>
          {row.maintenance && <Badge tone="warn">{t('domain.marks.maintenance')}</Badge>}
          {row.rate_limit_enabled && (
            <Mark>
              {t('domain.limited', { count: row.rate_limit_requests, seconds: row.rate_limit_period_seconds })}
            </Mark>
          )}
          {!row.http_to_https && <Mark>{t('domain.plain')}</Mark>}
          {!row.maintenance && !row.rate_limit_enabled && row.http_to_https && <span className="soft">–</span>}
        </span>
      ),
      sortBy: (row) => row.maintenance,
    },
    {
      key: 'routes',
      header: t('domain.routes'),
      width: '64px',
      align: 'right',
      cell: (row) =>
        row.routes > 0 ? (
          <Link
            to={paths.routing}
            search={{ domain: row.id } as never}
            aria-label={t('domain.routesOf', { name: row.name, count: row.routes })}
          >
            {row.routes}
          </Link>
        ) : (
          0
        ),
      sortBy: (row) => row.routes,
    },
    ...(canEdit ? [menu] : []),
  ]
}

function DomainMenu({ row }: { row: Site }) {
  const { t } = useTranslation('proxy')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const put = async (maintenance: boolean) => {
    const { applied } = await domains.update(row.id, { maintenance }, null)
    toastApplied(t(maintenance ? 'domain.closed' : 'domain.opened', { name: row.name }), applied)
    await queries.invalidateQueries({ queryKey: [domains.kind] })
  }
  const close = () =>
    confirm({
      title: t('domain.close.title', { name: row.name }),
      text: t('domain.close.text'),
      verb: t('maintenance.close.verb'),
      danger: true,
      act: () => put(true),
    })
  return (
    <RowMenu
      name={row.name}
      items={() => [
        {
          label: t('menu.edit'),
          icon: IconPencil,
          act: () => void navigate({ to: paths.domain(row.id), search: true } as never),
        },
        ...(row.name.startsWith('*.')
          ? []
          : [
              {
                label: t('menu.open'),
                icon: IconExternalLink,
                act: () => window.open(`https://${row.name}/`, '_blank', 'noopener'),
              },
            ]),
        {
          label: t(row.maintenance ? 'menu.reopen' : 'menu.close'),
          icon: IconBarrierBlock,
          act: () => void (row.maintenance ? put(false).catch(toastFault) : close()),
        },
        {
          label: t('menu.delete'),
          icon: IconTrash,
          danger: true,
          act: () =>
            void askToRemove({ resource: domains, id: row.id, name: row.name, text: t('domain.deleteText'), queries }),
        },
      ]}
    />
  )
}

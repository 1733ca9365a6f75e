import { Button } from '@mantine/core'
import { IconUpload } from '@tabler/icons-react'
import { Link, Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { certificates } from '../../api/resources'
import type { Certificate } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { AcmeOff } from './AcmeOff'
import classes from './Certificates.module.css'
import { CertificateBadge, Timeline } from './marks'
import { type Standing, standingOf } from './standing'
import type { ErrorKind } from './words'

export { Edit } from './CertificateDetail'
export { Create } from './Order'
export { Upload } from './Upload'

const standings: Standing[] = ['valid', 'expiring', 'expired', 'pending', 'error', 'self-signed']
const sources: Certificate['source'][] = ['acme', 'uploaded', 'self-signed']

export default function Certificates() {
  const { t } = useTranslation('certificates')
  const columns: Column<Certificate>[] = [
    {
      key: 'names',
      header: t('certificate.names.label'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => <Names certificate={row} />,
      sortBy: (row) => row.names[0],
    },
    {
      key: 'status',
      header: t('certificate.status'),
      width: 'minmax(0, 1.3fr)',
      cell: (row) => (
        <span className={classes.standing}>
          <CertificateBadge certificate={row} />
          {row.error_kind && (
            <small className={classes.under}>
              {t(`errors.${row.error_kind as ErrorKind}.word`)}
              {row.next_attempt_at && (
                <>
                  {' · '}
                  {t('certificate.again')} <Time at={row.next_attempt_at} />
                </>
              )}
            </small>
          )}
        </span>
      ),
      sortBy: standingOf,
    },
    {
      key: 'expires',
      header: t('certificate.validity'),
      width: 'minmax(190px, 1.4fr)',
      cell: (row) => <Timeline certificate={row} />,
      sortBy: (row) => row.expires_at,
    },
    {
      key: 'issuer',
      header: t('certificate.issuer'),
      width: 'minmax(0, 1fr)',
      cell: (row) => (
        <span className={classes.names}>
          <span>{row.issuer || '–'}</span>
          <small>{t(`certificate.source.options.${row.source}`)}</small>
        </span>
      ),
      sortBy: (row) => row.issuer,
    },
  ]
  const upload = (
    <Button
      component={Link}
      to={paths.certificateUpload}
      variant="default"
      leftSection={<IconUpload size={16} aria-hidden />}
    >
      {t('upload.create')}
    </Button>
  )
  return (
    <>
      <AcmeOff />
      <ResourceList
        resource={certificates}
        text="certificates:certificate"
        columns={columns}
        filters={[
          {
            key: 'status',
            label: t('certificate.status'),
            options: standings.map((value) => ({ value, label: t(`standings.${value}`) })),
            of: standingOf,
            many: true,
          },
          {
            key: 'source',
            label: t('certificate.source.label'),
            options: sources.map((value) => ({ value, label: t(`certificate.source.options.${value}`) })),
            of: (row) => row.source,
            many: true,
          },
        ]}
        searchText={(row) => [...row.names, row.issuer, row.fingerprint_sha256, row.last_error, row.id].join(' ')}
        rowLink={(row) => paths.certificate(row.id)}
        createLink={paths.certificateNew}
        beside={upload}
        every={15_000}
      />
      <Outlet />
    </>
  )
}

/** Up to three names, and the number of the rest. */
function Names({ certificate: { names, automatic } }: { certificate: Certificate }) {
  const { t } = useTranslation('certificates')
  return (
    <span className={classes.names}>
      {names.length === 0 && <span className="soft">{t('certificate.noNames')}</span>}
      {names.slice(0, 3).map((name) => (
        <span key={name} className="mono">
          {name}
        </span>
      ))}
      {names.length > 3 && <small>{t('certificate.more', { count: names.length - 3 })}</small>}
      {automatic && <small>{t('certificate.automatic')}</small>}
    </span>
  )
}

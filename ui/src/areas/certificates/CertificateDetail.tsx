import { Button } from '@mantine/core'
import { IconRefresh } from '@tabler/icons-react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { answer, http } from '../../api/client'
import { certificates, domains } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { Certificate } from '../../api/types'
import { EditDrawer } from '../../kit/form/ResourceDrawers'
import { CopyButton } from '../../kit/page/CopyText'
import { Facts } from '../../kit/page/Page'
import { Notice } from '../../kit/state/Notice'
import { toastApplied, toastFault } from '../../kit/state/toast'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Certificates.module.css'
import { CertificateBadge, Timeline } from './marks'
import { orderShape, useOrderFields } from './Order'
import { Preflight } from './Preflight'
import { certificateOf } from './standing'
import { pemFields } from './Upload'
import type { ErrorKind } from './words'

const replacement = pemFields.map((field, index) => (index === 0 ? { ...field, section: 'replace' } : field))

/** One certificate: its state, the domains that use it, why it failed, and what can be changed. */
export function Edit() {
  const { id } = useParams({ strict: false }) as { id: string }
  const orderFields = useOrderFields()
  const { data: all = [] } = useQuery({ queryKey: [certificates.kind], queryFn: certificates.list })
  const source = all.find((one) => one.id === id)?.source
  const common = {
    resource: certificates,
    list: paths.certificates,
    wide: true,
    name: nameOf,
    above: (row: Certificate) => <Now certificate={row} />,
    preview: false,
  }
  if (source === 'acme')
    return (
      <EditDrawer
        {...common}
        text="certificates:certificate"
        fields={orderFields}
        shape={orderShape}
        // The names of a domain's automatic certificate follow the domain.
        fixed={({ automatic }) => (automatic ? ['names'] : [])}
        below={(values) => <Preflight values={values} />}
      />
    )
  return <EditDrawer {...common} text="certificates:replacement" fields={source === 'uploaded' ? replacement : []} />
}

const nameOf = ({ names, id }: Certificate) => names[0] ?? id

function Now({ certificate: row }: { certificate: Certificate }) {
  const { t } = useTranslation('certificates')
  const canEdit = useCanEdit()
  return (
    <div className={classes.head}>
      <Timeline certificate={row} />
      {row.error_kind && <Failure certificate={row} kind={row.error_kind} />}
      <Facts
        facts={[
          [t('certificate.status'), <CertificateBadge key="s" certificate={row} />],
          [
            t('certificate.names.label'),
            <span key="n" className="mono">
              {row.names.join(', ') || '–'}
            </span>,
          ],
          [t('certificate.shownBy'), <ShownBy key="d" certificate={row} />],
          [t('certificate.source.label'), t(`certificate.source.options.${row.source}`)],
          [t('certificate.issuer'), row.issuer || '–'],
          [t('certificate.from'), <Time key="f" at={row.not_before} />],
          [t('certificate.until'), <Time key="u" at={row.expires_at} />],
          ...(row.source === 'acme'
            ? ([
                [t('certificate.renewed'), <Time key="r" at={row.last_renewed_at} />],
                [t('certificate.due'), row.renew_at ? <Time key="d" at={row.renew_at} /> : '–'],
              ] as [string, React.ReactNode][])
            : []),
          ...(row.fingerprint_sha256
            ? ([
                [
                  t('certificate.fingerprint'),
                  <span key="p" className="mono">
                    {row.fingerprint_sha256}
                  </span>,
                ],
              ] as [string, React.ReactNode][])
            : []),
        ]}
      />
      <div className={classes.buttons}>
        {canEdit && row.source === 'acme' && <Renew certificate={row} />}
        {row.certificate_pem && <CopyButton text={row.certificate_pem} label={t('certificate.copy')} />}
      </div>
    </div>
  )
}

/** Why the last order failed, and what to do about it. */
function Failure({ certificate, kind }: { certificate: Certificate; kind: ErrorKind }) {
  const { t } = useTranslation('certificates')
  return (
    <Notice tone="bad" title={t(`errors.${kind}.word`)}>
      <p>{t(`errors.${kind}.help`)}</p>
      <p className="mono">{certificate.last_error}</p>
      <p>
        {t('certificate.attempts', { count: certificate.attempts })}
        {certificate.next_attempt_at && (
          <>
            {' '}
            {t('certificate.nextAttempt')} <Time at={certificate.next_attempt_at} />
          </>
        )}
      </p>
    </Notice>
  )
}

/** The domains that serve it. */
function ShownBy({ certificate }: { certificate: Certificate }) {
  const { t } = useTranslation('certificates')
  const { data: all = [] } = useQuery({ queryKey: [certificates.kind], queryFn: certificates.list })
  const { data: sites = [] } = useQuery({ queryKey: [domains.kind], queryFn: domains.list })
  const shown = sites.filter((domain) => certificateOf(domain, all)?.id === certificate.id)
  if (shown.length === 0) return <span className="soft">{t('certificate.unused')}</span>
  return (
    <span className={classes.names}>
      {shown.map(({ id, name }) => (
        <Link key={id} to={paths.domain(id)} className="mono">
          {name}
        </Link>
      ))}
    </span>
  )
}

function Renew({ certificate }: { certificate: Certificate }) {
  const { t } = useTranslation('certificates')
  const queries = useQueryClient()
  const renew = useMutation({
    mutationFn: () => answer(http.POST('/certificates/{id}/renew', { params: { path: { id: certificate.id } } })),
    onSuccess: ({ applied }) => toastApplied(t('certificate.ordered'), applied),
    onError: toastFault,
    onSettled: () => queries.invalidateQueries({ queryKey: [certificates.kind] }),
  })
  return (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<IconRefresh size={14} aria-hidden />}
      loading={renew.isPending}
      onClick={() => renew.mutate()}
    >
      {t('certificate.renew')}
    </Button>
  )
}

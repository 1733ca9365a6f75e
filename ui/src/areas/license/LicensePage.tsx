import './texts'
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet } from '@tanstack/react-router'
import { Fragment } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { License } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { Facts, Page, Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Badge } from '../../kit/state/StateBadge'
import { toast, toastFault } from '../../kit/state/toast'
import { exactTime } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './License.module.css'
import { licenseQuery } from './resources'
import { standingOf, standingTone } from './standing'
import { Uses } from './Uses'

export default function LicensePage() {
  const { t } = useTranslation('license')
  const canEdit = useCanEdit()
  const query = useQuery(licenseQuery)
  const license = query.data
  return (
    <Page
      title={t('title')}
      lead={t('lead')}
      actions={
        canEdit &&
        license?.accepts_licenses && (
          <Button component={Link} to={paths.licenseInstall}>
            {t(license.installed ? 'install.replace' : 'install.first')}
          </Button>
        )
      }
    >
      <Panel title={t('about.title')} aside={canEdit && license?.installed && <Actions />}>
        <Loaded query={query} height={120}>
          {(loaded) => <About license={loaded} />}
        </Loaded>
      </Panel>
      <Panel title={t('use.title')}>
        <Loaded query={query} height={60}>
          {(loaded) => <Uses license={loaded} />}
        </Loaded>
      </Panel>
      <Outlet />
    </Page>
  )
}

/** The actions for an installed license. */
function Actions() {
  const { t } = useTranslation('license')
  const queries = useQueryClient()
  const verify = useMutation({
    mutationFn: () => unwrap(http.POST('/license/verify')),
    onSuccess: (license) => {
      queries.setQueryData(licenseQuery.queryKey, license)
      toast(license.status === 'active' ? 'live' : 'warn', t('verify.done'), license.reason)
    },
    onError: toastFault,
  })
  const remove = () =>
    confirm({
      title: t('remove.title'),
      text: <p>{t('remove.text')}</p>,
      verb: t('remove.verb'),
      danger: true,
      act: async () => {
        queries.setQueryData(licenseQuery.queryKey, await unwrap(http.DELETE('/license/key')))
        toast('live', t('remove.done'))
      },
    })
  return (
    <Button.Group>
      <Button size="compact-sm" variant="default" loading={verify.isPending} onClick={() => verify.mutate()}>
        {t('verify.verb')}
      </Button>
      <Button size="compact-sm" variant="default" onClick={remove}>
        {t('remove.verb')}
      </Button>
    </Button.Group>
  )
}

function About({ license }: { license: License }) {
  const { t } = useTranslation('license')
  const standing = standingOf(license)
  return (
    <>
      <p className={classes.standing}>
        <Badge tone={standingTone[standing]}>{t(`standing.${standing}`)}</Badge>
        <span>{license.reason}</span>
      </p>
      {license.not_after && (
        <Facts
          facts={[
            [t('about.subject'), license.subject],
            [t('about.plan'), license.plan],
            [
              t('about.id'),
              <span key="id" className="mono">
                {license.id}
              </span>,
            ],
            [t('about.notBefore'), exactTime(license.not_before as string)],
            [
              t('about.notAfter'),
              <Fragment key="not_after">
                {exactTime(license.not_after)}
                {license.status === 'active' && (
                  <div className="soft">{t('about.daysLeft', { count: license.days_left as number })}</div>
                )}
              </Fragment>,
            ],
            [t('about.features'), <Features key="features" names={license.features} />],
            [t('about.checked'), <Time key="checked" at={license.checked_at} />],
          ]}
        />
      )}
    </>
  )
}

function Features({ names }: { names: readonly string[] }) {
  const { t } = useTranslation('license')
  if (names.length === 0) return t('about.allFeatures')
  return (
    <span className={classes.features}>
      {names.map((name) => (
        <span key={name} className="mono">
          {name}
        </span>
      ))}
    </span>
  )
}

import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useLocation } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import type { Singleton } from '../../api/resource'
import { useCanEdit } from '../../api/session'
import { componentStream } from '../../api/streams'
import { paths } from '../../paths'
import { Notice } from '../state/Notice'
import { StateBadge } from '../state/StateBadge'
import { useStream } from '../state/useStream'
import { Empty } from './Empty'
import { Page } from './Page'
import { type Tab, Tabs, tabOf } from './Tabs'

interface ServicePageProps {
  /** Where its texts are: title, lead, and for a service that can be off: off.title, off.text. */
  text: string
  /** The component of the service. */
  component: string
  /** Missing if there is only one part. Parts marked live are empty while the service is off. */
  tabs?: readonly (Tab & { live?: boolean })[]
  /** For a service that can be off: its settings, and their page. */
  power?: { settings: Singleton<{ enabled: boolean }>; at: string }
  actions?: ReactNode
  /** What people should know before they use it. */
  notice?: ReactNode
}

/** A service of the gateway: its state, its files, its parts, and a link to turn it on. */
export function ServicePage({ text, component, tabs = [], power, actions, notice }: ServicePageProps) {
  const { t } = useTranslation(text)
  const { pathname } = useLocation()
  const { off, known } = usePower(power?.settings)
  const here = tabOf(pathname, tabs)
  return (
    <Page
      title={t('title')}
      lead={t('lead')}
      actions={
        <>
          <ServiceState component={component} />
          {actions}
        </>
      }
    >
      {tabs.length > 0 && <Tabs label={t('title')} tabs={tabs} />}
      {notice}
      {off && power && here?.to !== power.at && <Off text={text} settings={power.at} large={here?.live} />}
      {!(here?.live && (off || !known)) && <Outlet />}
    </Page>
  )
}

/** Whether a service is off. One that cannot be off counts as on, and so does one whose settings cannot be read. */
function usePower(settings: Singleton<{ enabled: boolean }> | undefined) {
  const query = useQuery({
    queryKey: [settings?.kind],
    queryFn: () => settings?.read(),
    enabled: settings !== undefined,
  })
  return { off: query.data?.value.enabled === false, known: !settings || !query.isPending }
}

function ServiceState({ component }: { component: string }) {
  const { t } = useTranslation()
  const found = useStream(componentStream).items.find(({ name }) => name === component)
  return (
    <>
      {found && <StateBadge component={found} />}
      <Link to={paths.component(component)}>{t('service.files')}</Link>
    </>
  )
}

function Off({ text, settings, large }: { text: string; settings: string; large?: boolean }) {
  const { t } = useTranslation(text)
  const canEdit = useCanEdit()
  const action = canEdit && (
    <Button
      component={Link}
      to={settings}
      variant={large ? undefined : 'default'}
      size={large ? undefined : 'compact-sm'}
    >
      {t('common:service.toSettings')}
    </Button>
  )
  return large ? (
    <Empty title={t('off.title')} text={t('off.text')} action={action} />
  ) : (
    <Notice tone="off" title={t('off.title')} action={action}>
      {t('off.text')}
    </Notice>
  )
}

import { Button } from '@mantine/core'
import type { QueryClient } from '@tanstack/react-query'
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  Link,
  lazyRouteComponent,
} from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { FaultNotice } from '../kit/Loaded'
import { listSearch } from '../kit/list-logic'
import { Page } from '../kit/Page'
import { paths } from './paths'
import { Shell } from './Shell'
import { meQuery } from './session'

const root = createRootRouteWithContext<{ queries: QueryClient }>()({
  // Nothing is shown before it is known who is asking; without a session the client leads to the login.
  loader: ({ context }) => context.queries.ensureQueryData(meQuery),
  component: Shell,
  errorComponent: Broken,
  notFoundComponent: NotFound,
})

const child = (path: string, load: () => Promise<Record<string, unknown>>, name = 'default') =>
  createRoute({
    getParentRoute: () => root,
    path,
    validateSearch: listSearch,
    component: lazyRouteComponent(load as never, name as never),
  })

const ntp = child(paths.ntp, () => import('../areas/ntp/NtpPage'))
const ntpServers = createRoute({
  getParentRoute: () => ntp,
  path: 'servers',
  component: lazyRouteComponent(() => import('../areas/ntp/Servers')),
})
const audit = child(paths.audit, () => import('../areas/audit/AuditPage'))
const users = child(paths.users, () => import('../areas/users/UsersPage'))
const components = child(paths.components, () => import('../areas/components/ComponentsPage'))

const tree = root.addChildren([
  child(paths.overview, () => import('../areas/overview/OverviewPage')),
  ntp.addChildren([
    createRoute({
      getParentRoute: () => ntp,
      path: '/',
      component: lazyRouteComponent(() => import('../areas/ntp/Sources')),
    }),
    ntpServers.addChildren([
      createRoute({
        getParentRoute: () => ntpServers,
        path: 'new',
        component: lazyRouteComponent(() => import('../areas/ntp/Servers'), 'NewServer'),
      }),
      createRoute({
        getParentRoute: () => ntpServers,
        path: '$id',
        component: lazyRouteComponent(() => import('../areas/ntp/Servers'), 'EditServer'),
      }),
    ]),
    createRoute({
      getParentRoute: () => ntp,
      path: 'settings',
      component: lazyRouteComponent(() => import('../areas/ntp/Settings')),
    }),
  ]),
  // An entry is shown by the page itself, which has it already.
  audit.addChildren([createRoute({ getParentRoute: () => audit, path: '$id' })]),
  components.addChildren([
    createRoute({
      getParentRoute: () => components,
      path: '$name',
      component: lazyRouteComponent(() => import('../areas/components/ComponentDetail')),
    }),
  ]),
  child(paths.settings, () => import('../areas/settings/SettingsPage')),
  users.addChildren([
    createRoute({
      getParentRoute: () => users,
      path: 'new',
      component: lazyRouteComponent(() => import('../areas/users/UsersPage'), 'NewUser'),
    }),
    createRoute({
      getParentRoute: () => users,
      path: '$id',
      component: lazyRouteComponent(() => import('../areas/users/UsersPage'), 'EditUser'),
    }),
  ]),
  child(paths.profile, () => import('../areas/profile/ProfilePage')),
])

export function createAppRouter(queries: QueryClient) {
  return createRouter({
    routeTree: tree,
    context: { queries },
    defaultPreload: 'intent',
    defaultErrorComponent: Broken,
  })
}

function Broken({ error }: ErrorComponentProps) {
  const { t } = useTranslation()
  return (
    <Page title={t('broken')}>
      <FaultNotice
        fault={error}
        action={
          <Button size="compact-sm" variant="default" onClick={() => location.reload()}>
            {t('reload')}
          </Button>
        }
      />
    </Page>
  )
}

function NotFound() {
  const { t } = useTranslation()
  return (
    <Page title={t('notFound')}>
      <p>
        <Link to={paths.overview}>{t('toOverview')}</Link>
      </p>
    </Page>
  )
}

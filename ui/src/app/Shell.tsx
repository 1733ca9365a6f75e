import { ActionIcon, Burger, Button, Drawer, Kbd, Menu, useMantineColorScheme } from '@mantine/core'
import { useDisclosure, useHotkeys } from '@mantine/hooks'
import {
  IconBuildingTunnel,
  IconDeviceDesktop,
  IconLogout,
  IconMoon,
  IconSearch,
  IconSun,
  IconUser,
} from '@tabler/icons-react'
import { Link, Outlet } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ConfirmHost } from '../kit/confirm'
import { Nav } from './Nav'
import { paths } from './paths'
import classes from './Shell.module.css'
import { StateBar } from './StateBar'
import { logOut, useMe } from './session'
import { useLiveCache } from './useLiveCache'

const Bell = lazy(() => import('../areas/alerts/Bell'))
const Palette = lazy(() => import('./Palette'))

export function Shell() {
  const { t } = useTranslation()
  const [navOpened, nav] = useDisclosure(false)
  const [paletteWanted, setPaletteWanted] = useState(false)
  useLiveCache()

  // The palette's code is loaded on its first use.
  const openPalette = () => {
    setPaletteWanted(true)
    void import('./Palette').then(({ show }) => show())
  }
  useHotkeys([['mod+K', openPalette]], [])

  return (
    <div className={classes.shell}>
      <a href="#content" className={classes.skip}>
        {t('nav.skip')}
      </a>
      <aside className={classes.side}>
        <Brand />
        <Nav />
      </aside>
      <Drawer
        opened={navOpened}
        onClose={nav.close}
        size={240}
        title={t('product')}
        closeButtonProps={{ 'aria-label': t('close') }}
      >
        <Nav onGo={nav.close} />
      </Drawer>
      {paletteWanted && (
        <Suspense>
          <Palette />
        </Suspense>
      )}
      <header className={classes.top}>
        <div className={classes.narrow}>
          <Burger opened={navOpened} onClick={nav.toggle} size="sm" aria-label={t('nav.open')} />
          <Brand />
        </div>
        <StateBar />
        <div className={classes.tools}>
          <Button
            variant="default"
            size="xs"
            className={classes.searchButton}
            leftSection={<IconSearch size={14} />}
            rightSection={<Kbd size="xs">Ctrl K</Kbd>}
            onClick={openPalette}
          >
            {t('top.search')}
          </Button>
          <ActionIcon
            variant="default"
            size={30}
            className={classes.searchIcon}
            aria-label={t('top.search')}
            onClick={openPalette}
          >
            <IconSearch size={16} />
          </ActionIcon>
          <Suspense fallback={<ActionIcon variant="default" size={30} disabled aria-hidden />}>
            <Bell />
          </Suspense>
          <SchemeMenu />
          <AccountMenu />
        </div>
      </header>
      <main id="content" tabIndex={-1} className={classes.main}>
        <Outlet />
      </main>
      <ConfirmHost />
    </div>
  )
}

function Brand() {
  const { t } = useTranslation()
  return (
    <Link to={paths.overview} className={classes.brand}>
      <IconBuildingTunnel size={22} stroke={1.8} aria-hidden />
      {t('product')}
    </Link>
  )
}

const schemes = { auto: IconDeviceDesktop, light: IconSun, dark: IconMoon }

function SchemeMenu() {
  const { t } = useTranslation()
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const Icon = schemes[colorScheme]
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" size={30} aria-label={t('top.scheme.label')}>
          <Icon size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {(['auto', 'light', 'dark'] as const).map((scheme) => {
          const SchemeIcon = schemes[scheme]
          return (
            <Menu.Item
              key={scheme}
              leftSection={<SchemeIcon size={15} />}
              onClick={() => setColorScheme(scheme)}
              aria-current={colorScheme === scheme}
            >
              {t(`top.scheme.${scheme}`)}
            </Menu.Item>
          )
        })}
      </Menu.Dropdown>
    </Menu>
  )
}

function AccountMenu() {
  const { t } = useTranslation()
  const me = useMe()
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" size={30} aria-label={t('top.account')}>
          <IconUser size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label className={classes.who}>{me.email}</Menu.Label>
        <Menu.Item component={Link} to={paths.profile} leftSection={<IconUser size={15} />}>
          {t('top.profile')}
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={15} />} onClick={logOut}>
          {t('top.logOut')}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  )
}

import { ActionIcon, Burger, Button, Drawer, Kbd, Menu, useMantineColorScheme } from '@mantine/core'
import { useDisclosure, useHotkeys, useLocalStorage, useMediaQuery } from '@mantine/hooks'
import {
  IconBuildingTunnel,
  IconCheck,
  IconDeviceDesktop,
  IconEye,
  IconKeyboard,
  IconLogout,
  IconMoon,
  IconSearch,
  IconSun,
  IconUser,
} from '@tabler/icons-react'
import { Link, Outlet } from '@tanstack/react-router'
import { lazy, type ReactNode, type RefObject, Suspense, useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { logOut, useCanEdit, useMe } from '../api/session'
import { ConfirmHost } from '../kit/change/confirm'
import { Badge } from '../kit/state/StateBadge'
import { paths } from '../paths'
import { Nav } from './Nav'
import classes from './Shell.module.css'
import { StateBar } from './StateBar'
import { useLiveCache } from './useLiveCache'

const Bell = lazy(() => import('../areas/alerts/Bell'))
const ConfirmBar = lazy(() => import('../areas/history/ConfirmBar'))
const DraftBar = lazy(() => import('../kit/change/DraftBar'))
const NodeBanner = lazy(() => import('./NodeBanner'))
const Palette = lazy(() => import('./Palette'))
const Shortcuts = lazy(() => import('./Shortcuts'))

export function Shell() {
  const { t } = useTranslation()
  const [navOpened, nav] = useDisclosure(false)
  const [paletteWanted, setPaletteWanted] = useState(false)
  useLiveCache()

  // The palette's code is loaded on first use.
  const openPalette = () => {
    setPaletteWanted(true)
    void import('./Palette').then(({ show }) => show())
  }
  const [helpOpened, help] = useDisclosure(false)
  useHotkeys([['mod+K', openPalette]], [])
  // Some keyboards need Shift for it, some do not.
  useHotkeys([
    ['?', help.open],
    ['shift+?', help.open],
  ])
  const top = useRef<HTMLElement>(null)
  useTopHeight(top)
  const canEdit = useCanEdit()
  const rail = useRail()

  return (
    <div className={classes.shell} data-rail={rail.shown || undefined}>
      <a href="#content" className={classes.skip}>
        {t('nav.skip')}
      </a>
      <aside className={classes.side}>
        <Brand />
        <Nav rail={rail.shown} />
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
      {helpOpened && (
        <Suspense>
          <Shortcuts onClose={help.close} />
        </Suspense>
      )}
      <header ref={top} className={classes.top}>
        <div className={classes.narrow}>
          <Burger opened={navOpened} onClick={nav.toggle} size="sm" aria-label={t('nav.open')} />
          <Brand />
        </div>
        <StateBar />
        <div className={classes.tools}>
          {!canEdit && (
            <span className={classes.readOnly}>
              <Badge tone="off" icon={IconEye}>
                {t('top.readOnly')}
              </Badge>
            </span>
          )}
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
          <DisplayMenu rail={rail} />
          <AccountMenu onHelp={help.open} />
        </div>
        <Suspense>
          <ConfirmBar />
        </Suspense>
        <Suspense>
          <DraftBar />
        </Suspense>
      </header>
      <main id="content" tabIndex={-1} className={classes.main}>
        <Suspense>
          <NodeBanner />
        </Suspense>
        <Outlet />
      </main>
      <ConfirmHost />
    </div>
  )
}

/** Tells the style sheets the height of the top bar, so that nothing is scrolled to below it. */
function useTopHeight(top: RefObject<HTMLElement | null>) {
  useEffect(() => {
    if (!top.current) return
    const bar = top.current
    const watch = new ResizeObserver(() =>
      document.documentElement.style.setProperty('--gw-top', `${Math.ceil(bar.getBoundingClientRect().height)}px`),
    )
    watch.observe(bar)
    return () => watch.disconnect()
  }, [top])
}

/** Whether the navigation is a rail of icons: on narrow windows, or if the user wants it. */
function useRail() {
  const [chosen, choose] = useLocalStorage({
    key: 'gateway-rail',
    defaultValue: false,
    getInitialValueInEffect: false,
  })
  const narrow = useMediaQuery('(max-width: 68em)', false, { getInitialValueInEffect: false })
  return { shown: chosen || !!narrow, chosen, choose }
}

function Brand() {
  const { t } = useTranslation()
  return (
    <Link to={paths.overview} className={classes.brand}>
      <IconBuildingTunnel size={22} stroke={1.8} aria-hidden />
      <span>{t('product')}</span>
    </Link>
  )
}

const schemes = { auto: IconDeviceDesktop, light: IconSun, dark: IconMoon }

function DisplayMenu({ rail }: { rail: ReturnType<typeof useRail> }) {
  const { t } = useTranslation()
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const [compact, setCompact] = useLocalStorage({
    key: 'gateway-compact',
    defaultValue: false,
    getInitialValueInEffect: false,
  })
  useEffect(() => {
    document.documentElement.toggleAttribute('data-compact', compact)
  }, [compact])
  const Icon = schemes[colorScheme]
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" size={30} aria-label={t('top.display')}>
          <Icon size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{t('top.scheme.label')}</Menu.Label>
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
        <Menu.Divider />
        <ToggleItem on={compact} onChange={setCompact}>
          {t('top.compact')}
        </ToggleItem>
        <ToggleItem on={rail.chosen} onChange={rail.choose}>
          {t('top.rail')}
        </ToggleItem>
      </Menu.Dropdown>
    </Menu>
  )
}

function ToggleItem({ on, onChange, children }: { on: boolean; onChange: (on: boolean) => void; children: ReactNode }) {
  return (
    <Menu.Item
      aria-current={on}
      leftSection={on ? <IconCheck size={15} /> : <span className={classes.unchecked} />}
      onClick={() => onChange(!on)}
    >
      {children}
    </Menu.Item>
  )
}

function AccountMenu({ onHelp }: { onHelp: () => void }) {
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
        <Menu.Item leftSection={<IconKeyboard size={15} />} onClick={onHelp}>
          {t('shortcuts.title')}
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={15} />} onClick={logOut}>
          {t('top.logOut')}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  )
}

import { IconBuildingTunnel } from '@tabler/icons-react'
import { lazy, type ReactNode, Suspense } from 'react'
import { useTranslation } from 'react-i18next'
import { addTexts } from '../i18n/i18n'
import classes from './Door.module.css'
import en from './en.json'
import { Login } from './Login'

addTexts('door', en)

const ResetPassword = lazy(() => import('./ResetPassword'))
const Setup = lazy(() => import('./Setup'))

const pages: Record<string, ReactNode> = {
  '/login': <Login />,
  '/reset-password': <ResetPassword />,
  '/setup': <Setup />,
}

/** The pages before a login. They are a program of their own, without router and query cache. */
export default function Door() {
  const { t } = useTranslation()
  return (
    <main className={classes.door}>
      <div className={classes.brand}>
        <IconBuildingTunnel size={26} stroke={1.8} aria-hidden />
        <span>{t('product')}</span>
      </div>
      <Suspense>{pages[location.pathname]}</Suspense>
      <p className={classes.host}>{location.host}</p>
    </main>
  )
}

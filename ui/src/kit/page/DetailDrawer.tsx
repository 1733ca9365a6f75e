import { Drawer } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './DetailDrawer.module.css'

interface DetailDrawerProps {
  title: ReactNode
  /** The kind of thing, if the title is its name. */
  kind?: string
  back: string
  wide?: boolean
  children: ReactNode
}

/**
 * Returns the focus to the row or button that opened a drawer. After a reload of the list, another element has the same
 * link.
 */
function giveFocusTo(from: Element | null) {
  const href = from?.getAttribute('href')
  const target = from?.isConnected || !href ? from : document.querySelector(`a[href="${CSS.escape(href)}"]`)
  if (document.activeElement === document.body && target instanceof HTMLElement) target.focus()
}

/** The details of a row, beside its list. The URL can be shared; closing the drawer returns to the list. */
export function DetailDrawer({ title, kind, back, wide, children }: DetailDrawerProps) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  // Opens after mounting, so that it slides in.
  const [opened, setOpened] = useState(false)
  useEffect(() => setOpened(true), [])
  useEffect(() => {
    const from = document.activeElement
    return () => void setTimeout(() => giveFocusTo(from))
  }, [])
  return (
    <Drawer
      opened={opened}
      onClose={() => navigate({ to: back, search: true } as never)}
      position="right"
      size={wide ? 'min(880px, 100vw)' : 'min(560px, 100vw)'}
      title={
        <>
          {kind && <span className={classes.kind}>{kind}</span>} {title}
        </>
      }
      closeButtonProps={{ 'aria-label': t('close') }}
      overlayProps={{ backgroundOpacity: 0.25 }}
      transitionProps={{ duration: 120 }}
    >
      {children}
    </Drawer>
  )
}

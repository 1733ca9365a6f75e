import { Drawer } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './DetailDrawer.module.css'

interface DetailDrawerProps {
  title: ReactNode
  /** What kind of thing it is, where the title is its name. */
  kind?: string
  back: string
  wide?: boolean
  children: ReactNode
}

/** To the row or the button that a drawer was opened with. A list that was loaded again has another element for the same address. */
function giveFocusTo(from: Element | null) {
  const href = from?.getAttribute('href')
  const target = from?.isConnected || !href ? from : document.querySelector(`a[href="${CSS.escape(href)}"]`)
  if (document.activeElement === document.body && target instanceof HTMLElement) target.focus()
}

/** One thing of a list, beside the list. Its address can be shared; closing it leads back to the list. */
export function DetailDrawer({ title, kind, back, wide, children }: DetailDrawerProps) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  // Opened after the mount, so that it slides in.
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

import { Drawer } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'

interface DetailDrawerProps {
  title: ReactNode
  back: string
  wide?: boolean
  children: ReactNode
}

/** One thing of a list, beside the list. Its address can be shared; closing it leads back to the list. */
export function DetailDrawer({ title, back, wide, children }: DetailDrawerProps) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  // Opened after the mount, so that it slides in and gives the focus back to the row when it closes.
  const [opened, setOpened] = useState(false)
  useEffect(() => setOpened(true), [])
  return (
    <Drawer
      opened={opened}
      onClose={() => navigate({ to: back, search: true } as never)}
      position="right"
      size={wide ? 'min(880px, 100vw)' : 'min(560px, 100vw)'}
      title={title}
      closeButtonProps={{ 'aria-label': t('close') }}
      overlayProps={{ backgroundOpacity: 0.25 }}
      transitionProps={{ duration: 120 }}
    >
      {children}
    </Drawer>
  )
}

import { IconAlertTriangle, IconCircleCheck, IconCircleX, IconInfoCircle } from '@tabler/icons-react'
import type { ReactNode } from 'react'
import classes from './Notice.module.css'

export type Tone = 'live' | 'warn' | 'bad' | 'off'

const icons = { live: IconCircleCheck, warn: IconAlertTriangle, bad: IconCircleX, off: IconInfoCircle }

interface NoticeProps {
  tone: Tone
  title?: ReactNode
  children?: ReactNode
  action?: ReactNode
}

/** A message in place: an error above a form, a hint above a list. */
export function Notice({ tone, title, children, action }: NoticeProps) {
  const Icon = icons[tone]
  return (
    <div className={classes.notice} data-tone={tone} role={tone === 'bad' ? 'alert' : 'status'}>
      <Icon size={18} className={classes.icon} aria-hidden />
      <div className={classes.text}>
        {title && <div className={classes.title}>{title}</div>}
        {children && <div>{children}</div>}
      </div>
      {action}
    </div>
  )
}

import { UnstyledButton } from '@mantine/core'
import { IconChevronRight } from '@tabler/icons-react'
import { type ReactNode, useState } from 'react'
import classes from './Fold.module.css'

interface FoldProps {
  title: string
  /** Shown next to the title while folded. */
  said?: string
  children: ReactNode
}

/** Folds details that most people do not need into one line. */
export function Fold({ title, said, children }: FoldProps) {
  const [open, setOpen] = useState(false)
  return (
    <div>
      <UnstyledButton className={classes.line} aria-expanded={open} onClick={() => setOpen(!open)}>
        <IconChevronRight size={15} className={classes.chevron} data-open={open || undefined} aria-hidden />
        {title}
        {said && <span className={classes.said}>{said}</span>}
      </UnstyledButton>
      {open && <div className={classes.body}>{children}</div>}
    </div>
  )
}

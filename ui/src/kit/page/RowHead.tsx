import { Button } from '@mantine/core'
import { IconPencil } from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useCanEdit } from '../../api/session'
import classes from './RowHead.module.css'

interface RowHeadProps {
  /** The list that the row is of. */
  list: { to: string; title: string }
  name: string
  /** Where the row itself is changed. */
  edit: { to: string; title: string }
  /** What else can be done with it, by who may change it. */
  actions?: ReactNode
  /** What else is to be said about it. */
  children?: ReactNode
}

/** Above a row that has a page of its own: where it belongs, what it is called, and what can be done with it. */
export function RowHead({ list, name, edit, actions, children }: RowHeadProps) {
  const canEdit = useCanEdit()
  return (
    <div className={classes.head}>
      <h2>
        <Link to={list.to}>{list.title}</Link> / <span className="mono">{name}</span>
      </h2>
      {children}
      {canEdit && (
        <div className={classes.buttons}>
          <Button
            component={Link}
            to={edit.to}
            variant="default"
            size="compact-sm"
            leftSection={<IconPencil size={14} aria-hidden />}
          >
            {edit.title}
          </Button>
          {actions}
        </div>
      )}
    </div>
  )
}

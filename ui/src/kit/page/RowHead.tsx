import { Button } from '@mantine/core'
import { IconPencil } from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useCanEdit } from '../../api/session'
import classes from './RowHead.module.css'

interface RowHeadProps {
  /** The list that has the row. */
  list: { to: string; title: string }
  name: string
  /** Where to edit the row itself. */
  edit: { to: string; title: string }
  /** More actions, for users who can edit. */
  actions?: ReactNode
  /** More about the row. */
  children?: ReactNode
}

/** The heading of a row that has a page of its own: its list, its name and its actions. */
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

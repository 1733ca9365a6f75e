import { Menu } from '@mantine/core'
import { IconDotsVertical, type IconProps } from '@tabler/icons-react'
import { type ComponentType, useState } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './DataTable.module.css'

interface RowMenuItem {
  label: string
  icon: ComponentType<IconProps>
  act: () => void
  danger?: boolean
}

/**
 * More actions for a row. `name` names the row for screen readers. A list has thousands of these, and few are opened:
 * until then each is a plain button.
 */
export function RowMenu({ name, items }: { name: string; items: () => RowMenuItem[] }) {
  const { t } = useTranslation()
  const [wanted, setWanted] = useState(false)
  const button = (
    <button
      type="button"
      className={classes.more}
      aria-label={t('list.more', { name })}
      aria-haspopup="menu"
      onClick={wanted ? undefined : () => setWanted(true)}
    >
      <IconDotsVertical size={16} aria-hidden />
    </button>
  )
  if (!wanted) return button
  return (
    <Menu position="bottom-end" withinPortal defaultOpened onClose={() => setWanted(false)}>
      <Menu.Target>{button}</Menu.Target>
      <Menu.Dropdown>
        {items().map(({ label, icon: Icon, act, danger }) => (
          <Menu.Item key={label} leftSection={<Icon size={15} />} color={danger ? 'red' : undefined} onClick={act}>
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}

import { ActionIcon, Menu } from '@mantine/core'
import { IconDotsVertical, type IconProps } from '@tabler/icons-react'
import type { ComponentType } from 'react'
import { useTranslation } from 'react-i18next'

interface RowMenuItem {
  label: string
  icon: ComponentType<IconProps>
  act: () => void
  danger?: boolean
}

/** What else can be done with a row. `name` says of which, to those who do not see it. */
export function RowMenu({ name, items }: { name: string; items: RowMenuItem[] }) {
  const { t } = useTranslation()
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size={26} aria-label={t('list.more', { name })}>
          <IconDotsVertical size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {items.map(({ label, icon: Icon, act, danger }) => (
          <Menu.Item key={label} leftSection={<Icon size={15} />} color={danger ? 'red' : undefined} onClick={act}>
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}

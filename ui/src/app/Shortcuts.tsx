import { Kbd, Modal } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import classes from './Shell.module.css'

const shortcuts = {
  search: 'Ctrl K',
  list: '/',
  create: 'N',
  rows: '↑ ↓',
  open: 'Enter',
  save: 'Ctrl Enter',
  close: 'Esc',
  keys: '?',
}

/** The keyboard shortcuts. */
export default function Shortcuts({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation()
  return (
    <Modal
      opened
      onClose={onClose}
      title={t('shortcuts.title')}
      centered
      closeButtonProps={{ 'aria-label': t('close') }}
    >
      <dl className={classes.shortcuts}>
        {Object.entries(shortcuts).map(([name, keys]) => (
          <div key={name}>
            <dt>
              {keys.split(' ').map((key) => (
                <Kbd key={key} size="xs">
                  {key}
                </Kbd>
              ))}
            </dt>
            <dd>{t(`shortcuts.${name}`)}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  )
}

import './texts'
import { useTranslation } from 'react-i18next'
import { paths } from '../../app/paths'
import { Tabs } from '../../kit/Tabs'

/** The backups on this machine, and where copies of them go. */
export function BackupTabs() {
  const { t } = useTranslation('backups')
  return (
    <Tabs
      label={t('title')}
      tabs={[
        { to: paths.backups, label: t('tabs.here') },
        { to: paths.backupTargets, label: t('tabs.targets') },
      ]}
    />
  )
}

import './texts'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/Page'
import { BackupTabs } from './BackupTabs'
import Targets from './Targets'

export { Create, Edit } from './Targets'

export default function TargetsPage() {
  const { t } = useTranslation('backups')
  return (
    <Page title={t('title')} lead={t('lead')}>
      <BackupTabs />
      <Targets />
    </Page>
  )
}

import './targets-texts'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/Page'
import Targets from './Targets'

export { Create, Edit } from './Targets'

export default function TargetsPage() {
  const { t } = useTranslation('targets')
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Targets />
    </Page>
  )
}

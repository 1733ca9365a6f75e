import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { wafConfigs } from '../../api/resources'
import { EditForm } from '../../kit/form/ResourceForm'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { paths } from '../../paths'
import { configFields, configShape, stateOf } from './config-form'
import { useGuard } from './guard'
import { AlertsLink } from './marks'
import { OutlookCard } from './Outlook'

/** The WAF settings of a domain. */
export default function DomainForm() {
  const { t } = useTranslation('waf')
  const navigate = useNavigate()
  const { id } = useParams({ strict: false }) as { id: string }
  const queries = useQueryClient()
  const guard = useGuard(id)
  const { data } = useQuery({ queryKey: [wafConfigs.kind, id], queryFn: () => wafConfigs.read(id) })
  const fields = configFields((mode) =>
    t(mode === 'blocking' ? 'config.oversized.helpBlocking' : 'config.oversized.helpDetection'),
  )
  return (
    <DetailDrawer title={data ? t('config.of', { name: data.value.domain }) : t('config.title')} back={paths.waf}>
      <EditForm
        key={id}
        resource={wafConfigs}
        id={id}
        text="waf:config"
        fields={fields}
        shape={configShape}
        guard={guard}
        name={({ domain }) => domain}
        above={(config) => stateOf(config) === 'detection' && <OutlookCard config={config} />}
        onDone={() => {
          void queries.invalidateQueries({ queryKey: ['waf'] })
          void navigate({ to: paths.waf, search: true } as never)
        }}
      >
        {() => (
          <p>
            <AlertsLink of={{ domain_id: id }}>{t('config.alerts')}</AlertsLink>
          </p>
        )}
      </EditForm>
    </DetailDrawer>
  )
}

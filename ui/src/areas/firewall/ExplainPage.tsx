import './texts'
import { Button } from '@mantine/core'
import { IconShieldPlus } from '@tabler/icons-react'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { useCanEdit } from '../../api/session'
import type { Explanation } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'
import { Page, Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import { useBook } from './book'
import { ExplainForm } from './ExplainForm'
import { questionFrom } from './explain-logic'
import { draftFor } from './log-logic'
import { PathPicture, Steps, Verdict } from './Story'

/** A button to create a rule that lets the packet pass, for those who may. */
function WayOut({ answer }: { answer: Explanation }) {
  const { t } = useTranslation('firewall')
  const canEdit = useCanEdit()
  const navigate = useNavigate()
  const { services } = useBook().lists
  const { packet, path, verdict, in_zone, out_zone } = answer
  if (!canEdit || verdict === 'accept' || path === 'unroutable' || !packet.source) return null
  const draft = draftFor({ ...packet, proto: packet.protocol }, in_zone, path === 'input' ? 'self' : out_zone, services)
  return (
    <Button
      variant="default"
      size="compact-sm"
      mt="xs"
      leftSection={<IconShieldPlus size={15} aria-hidden />}
      onClick={() => void navigate({ to: paths.ruleNew, state: { draft } } as never)}
    >
      {t('explain.makeRule')}
    </Button>
  )
}

/** What happens to a packet and why, without sending one. The question is in the address bar. */
export default function ExplainPage() {
  const { t } = useTranslation('firewall')
  const search = useSearch({ strict: false }) as ListSearch
  const question = questionFrom(search)
  const query = useQuery({
    // The key starts with the area, so that any firewall change refetches it.
    queryKey: ['firewall', 'explain', question],
    queryFn: () => unwrap(http.POST('/firewall/explain', { body: question ?? { mine: true } })),
    enabled: question !== null,
    placeholderData: keepPreviousData,
    retry: false,
  })
  const faults = query.isError ? toFault(query.error).fields : {}
  return (
    <Page title={t('explain.title')} lead={t('explain.lead')}>
      <Panel title={t('explain.packet')}>
        <ExplainForm key={JSON.stringify(search)} search={search} faults={faults} busy={query.isFetching} />
      </Panel>
      {question === null ? (
        <Notice tone="off">{t('explain.empty')}</Notice>
      ) : (
        <Loaded query={query} height={280}>
          {(answer) => (
            <>
              <Panel title={t('explain.way')} aside={<Verdict answer={answer} />}>
                <PathPicture answer={answer} />
                <WayOut answer={answer} />
              </Panel>
              <Panel title={t('explain.steps')}>
                <Steps answer={answer} />
              </Panel>
            </>
          )}
        </Loaded>
      )}
    </Page>
  )
}

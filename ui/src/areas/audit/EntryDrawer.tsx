import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { AuditEntry } from '../../api/types'
import { paths } from '../../app/paths'
import { DetailDrawer } from '../../kit/DetailDrawer'
import { Code } from '../../kit/Diff'
import { FieldChanges } from '../../kit/FieldChanges'
import { exactTime } from '../../kit/format'
import { Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { Facts } from '../../kit/Page'
import classes from './Audit.module.css'
import { changesOf } from './changes'
import { justAfter } from './live-entries'

/** One entry by its id: from the list when it is there, else from the gateway, so that its link can be shared. */
export function EntryDrawer({ id, known }: { id: string; known?: AuditEntry }) {
  const { t } = useTranslation('audit')
  const query = useQuery({
    queryKey: ['audit', 'entry', id],
    queryFn: async () => {
      const [found] = await unwrap(http.GET('/audit', { params: { query: { before: justAfter(id), limit: 1 } } }))
      return found?.id === id ? found : null
    },
    initialData: known,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <DetailDrawer title={query.data?.action ?? t('id')} back={paths.audit}>
      <Loaded query={query}>
        {(entry) => {
          if (!entry) return <Notice tone="off">{t('gone')}</Notice>
          const changes = changesOf(entry.details)
          return (
            <>
              <Facts
                facts={[
                  [t('at'), exactTime(entry.created_at)],
                  [t('actor'), entry.actor],
                  [t('subject'), entry.subject],
                  [t('node'), <Mono key="node" text={entry.node_id} />],
                  [t('id'), <Mono key="id" text={entry.id} />],
                ]}
              />
              <div className={classes.details}>
                {changes.length > 0 ? (
                  <FieldChanges changes={changes} />
                ) : (
                  entry.details != null && <Code label={t('details')} text={JSON.stringify(entry.details, null, 2)} />
                )}
              </div>
            </>
          )
        }}
      </Loaded>
    </DetailDrawer>
  )
}

function Mono({ text }: { text: string }) {
  return <span className="mono">{text}</span>
}

import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { AuditEntry } from '../../api/types'
import { Code } from '../../kit/change/Diff'
import { FieldChanges } from '../../kit/change/FieldChanges'
import { useNames } from '../../kit/change/names'
import { said } from '../../kit/change/rows'
import { useTexts } from '../../kit/change/useTexts'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Facts } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { exactTime } from '../../kit/text/format'
import { pathOfThing, paths } from '../../paths'
import classes from './Audit.module.css'
import { changeSetOf, changesOf, detailsOf, partsOf } from './changes'
import { justAfter } from './live-entries'
import { addressOf, deedOf } from './words'

/** One entry by its id: from the list if it is there, else from the gateway, so that links can be shared. */
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
    <DetailDrawer title={query.data ? deedOf(query.data.action) : t('id')} back={paths.audit}>
      <Loaded query={query}>
        {(entry) => {
          if (!entry) return <Notice tone="off">{t('gone')}</Notice>
          const set = changeSetOf(entry)
          return (
            <>
              <Facts
                facts={[
                  [t('at'), exactTime(entry.created_at)],
                  [t('actor'), entry.actor],
                  [t('address'), <Mono key="address" text={addressOf(entry) ?? '–'} />],
                  [t('subject'), <Subject key="subject" entry={entry} />],
                  [t('code'), <Mono key="code" text={entry.action} />],
                  ...(set ? [[t('changeSet'), <SetLink key="set" id={set} />] as [string, ReactNode]] : []),
                  [t('node'), <Mono key="node" text={entry.node_id} />],
                  [t('id'), <Mono key="id" text={entry.id} />],
                ]}
              />
              <div className={classes.details}>
                <Details entry={entry} />
              </div>
            </>
          )
        }}
      </Loaded>
    </DetailDrawer>
  )
}

/** What an entry is about, with a link if it still exists. */
function Subject({ entry }: { entry: AuditEntry }) {
  const { kind, verb } = partsOf(entry.action)
  const { id } = detailsOf(entry)
  const to = id && verb !== 'delete' ? pathOfThing({ kind, id }) : undefined
  return to ? <Link to={to}>{entry.subject}</Link> : entry.subject
}

/** The changed fields in the words of the form, or else the raw details. */
function Details({ entry }: { entry: AuditEntry }) {
  const { t } = useTranslation('audit')
  const { kind } = partsOf(entry.action)
  const changes = changesOf(entry).filter(said)
  const names = useNames(changes.map(({ field }) => field))
  const ready = useTexts([kind])
  const { remote_ip: _, ...rest } = detailsOf(entry)
  if (changes.length > 0) return ready ? <FieldChanges changes={changes} kind={kind} names={names} /> : null
  return Object.keys(rest).length > 0 && <Code label={t('details')} text={JSON.stringify(rest, null, 2)} />
}

/** A link to the change set that an entry is part of, where it can be reverted. */
function SetLink({ id }: { id: string }) {
  const { t } = useTranslation('audit')
  return <Link to={paths.changeSet(id)}>{t('viewChange')}</Link>
}

function Mono({ text }: { text: string }) {
  return <span className="mono">{text}</span>
}

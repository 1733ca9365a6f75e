import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { AuditEntry } from '../../api/types'
import { FieldChanges } from '../../kit/change/FieldChanges'
import type { Names } from '../../kit/change/kinds'
import { useNames } from '../../kit/change/names'
import { said } from '../../kit/change/rows'
import { useTexts } from '../../kit/change/useTexts'
import { kindName } from '../../kit/change/words'
import type { ListSearch } from '../../kit/list/list-logic'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { Waiting } from '../../kit/state/Waiting'
import { count, exactTime } from '../../kit/text/format'
import { pathOfThing, paths } from '../../paths'
import classes from './Audit.module.css'
import { type ChangedThing, detailsOf, whatChanged, yesterday } from './changes'
import { filters } from './live-entries'

const pageSize = 1000
/** The limit on pages to add up. */
const mostPages = 10
/** How many things to show at first, and with each "more". */
const thingsAtOnce = 50

const tones = { created: 'live', changed: 'off', deleted: 'bad', passing: 'off' } as const

/** All entries of a period, page by page. */
async function entriesOf(search: ListSearch): Promise<{ entries: AuditEntry[]; whole: boolean }> {
  const entries: AuditEntry[] = []
  const from = search.from ? new Date(search.from) : yesterday(new Date())
  for (let page = 0; page < mostPages; page++) {
    const found: AuditEntry[] = await unwrap(
      http.GET('/audit', {
        params: {
          query: {
            ...Object.fromEntries(filters.map((name) => [name, search[name]])),
            from: from.toISOString(),
            to: search.to ? new Date(search.to).toISOString() : undefined,
            limit: pageSize,
            before: entries.at(-1)?.id,
          },
        },
      }),
    )
    entries.push(...found)
    if (found.length < pageSize) return { entries, whole: true }
  }
  return { entries, whole: false }
}

/** The overall difference: for each thing, its changed fields with old and new values. */
export function ChangesView({ newest }: { newest: string | undefined }) {
  const { t } = useTranslation('audit')
  const search = useSearch({ strict: false }) as ListSearch
  const query = useQuery({
    queryKey: ['audit', 'changes', search, newest],
    queryFn: () => entriesOf(search),
    placeholderData: (old) => old,
  })
  const since = search.from ? new Date(search.from) : yesterday(new Date())
  return (
    <Panel title={t('changes.title', { since: exactTime(since.getTime()) })}>
      <Loaded query={query} height={240}>
        {({ entries, whole }) => {
          return (
            <>
              {!whole && <Notice tone="warn">{t('changes.tooMany', { count: entries.length })}</Notice>}
              <Things things={whatChanged(entries)} />
            </>
          )
        }}
      </Loaded>
    </Panel>
  )
}

function Things({ things }: { things: ChangedThing[] }) {
  const { t } = useTranslation('audit')
  const [most, setMost] = useState(thingsAtOnce)
  const shown = things.slice(0, most)
  const names = useNames(shown.flatMap(({ changes }) => changes.map(({ field }) => field)))
  const ready = useTexts(shown.map(({ kind }) => kind))
  if (things.length === 0) return <p className="soft">{t('changes.none')}</p>
  if (!ready) return <Waiting height={240} />
  return (
    <>
      <ul className={classes.things}>
        {shown.map((thing) => (
          <Thing key={thing.key} thing={thing} names={names} />
        ))}
      </ul>
      {things.length > most && (
        <div className={classes.more}>
          <span className="soft">{t('changes.shown', { shown: count(most), total: count(things.length) })}</span>
          <Button variant="default" onClick={() => setMost(most + thingsAtOnce)}>
            {t('changes.more')}
          </Button>
        </div>
      )}
    </>
  )
}

function Thing({ thing, names }: { thing: ChangedThing; names: Names }) {
  const { t } = useTranslation('audit')
  const { kind, subject, fate, changes, actors, entries } = thing
  const id = entries[0] && detailsOf(entries[0]).id
  const to = id && fate !== 'deleted' && fate !== 'passing' ? pathOfThing({ kind, id }) : undefined
  return (
    <li>
      <div className={classes.thing}>
        <Badge tone={tones[fate]}>{t(`changes.fates.${fate}`)}</Badge>
        <span className="soft">{kindName(kind)}</span>
        {to ? <Link to={to}>{subject}</Link> : <strong>{subject}</strong>}
        <span className="soft">{t('changes.by', { actors: actors.join(', ') })}</span>
        <Button
          size="compact-xs"
          variant="subtle"
          renderRoot={(props) => <Link to={paths.auditEntry(entries[0]?.id ?? '')} search={true} {...props} />}
        >
          {t('changes.entries', { count: entries.length })}
        </Button>
      </div>
      {fate !== 'passing' && <FieldChanges changes={changes.filter(said)} kind={kind} names={names} />}
    </li>
  )
}

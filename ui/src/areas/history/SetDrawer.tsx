import './texts'
import '../audit/texts'
import { Button } from '@mantine/core'
import { IconArrowBackUp } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { ChangeSetWhole } from '../../api/types'
import { FileDiffs } from '../../kit/change/Diff'
import { RowsView } from '../../kit/change/RowsView'
import { deedOf as rowDeedOf } from '../../kit/change/rows'
import { deedsOf } from '../../kit/change/words'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Facts } from '../../kit/page/Page'
import { componentName } from '../../kit/state/condition'
import { Loaded } from '../../kit/state/Loaded'
import { StateBadge } from '../../kit/state/StateBadge'
import { count, exactTime } from '../../kit/text/format'
import { paths } from '../../paths'
import { changeSetOf } from '../audit/changes'
import { deedOf } from '../audit/words'
import { FateBadge } from './FateBadge'
import { fateOf } from './fate'
import classes from './History.module.css'
import { setQuery } from './waiting'

/** One change set: what it did, why, how far each component applied it, and how to revert it. */
export default function SetDrawer() {
  const { t } = useTranslation('history')
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery(setQuery(id))
  return (
    <DetailDrawer title={query.data ? deedsOf(query.data.kinds) : t('set.title')} back={paths.history} wide>
      <Loaded query={query} height={320}>
        {(set) => <Whole set={set} />}
      </Loaded>
    </DetailDrawer>
  )
}

function Whole({ set }: { set: ChangeSetWhole }) {
  const { t } = useTranslation('history')
  const canEdit = useCanEdit()
  const links: [string, string, string | null][] = [
    [t('set.reverts'), t('set.earlier'), set.reverts],
    [t('set.revertedBy'), t('set.later'), set.reverted_by],
  ]
  const facts: [string, ReactNode][] = [
    [t('at'), exactTime(set.created_at)],
    [t('actor'), set.actor],
    [t('reason'), set.reason || <span className="soft">{t('noReason')}</span>],
    [t('state'), fateOf(set) !== 'none' && <FateBadge key="state" set={set} />],
    ...links.map(([label, text, id]): [string, ReactNode] => [label, id && <SetLink key={id} id={id} text={text} />]),
  ]
  return (
    <>
      <Facts facts={facts.filter(([, value]) => value)} />
      {canEdit && ['none', 'confirmed'].includes(fateOf(set)) && set.kinds.length > 0 && (
        <div className={classes.part}>
          <div>
            <Button
              variant="default"
              leftSection={<IconArrowBackUp size={16} aria-hidden />}
              renderRoot={(props) => <Link to={paths.changeSetRevert(set.id)} search={true} {...props} />}
            >
              {t('set.revert')}
            </Button>
          </div>
        </div>
      )}
      <section className={classes.part}>
        <h3>{t('set.rows')}</h3>
        <RowsView rows={set.rows.map(rowDeedOf)} />
      </section>
      <section className={classes.part}>
        <h3>{t('set.report')}</h3>
        <Report report={set.report} />
      </section>
      <section className={classes.part}>
        <h3>{t('set.audit')}</h3>
        <AuditLinks set={set} />
      </section>
    </>
  )
}

function SetLink({ id, text }: { id: string; text: string }) {
  return (
    <Link to={paths.changeSet(id)} search={true}>
      {text}
    </Link>
  )
}

/** An audit entry is written with the change or a moment later. */
const around = 60_000
/** How many to list; the rest are counted. */
const mostEntries = 5

/** Links to the audit entries of the same request. */
function AuditLinks({ set }: { set: ChangeSetWhole }) {
  const { t } = useTranslation('history')
  const at = Date.parse(set.created_at)
  const query = useQuery({
    queryKey: ['change-set', set.id, 'audit'],
    queryFn: async () => {
      const span = { from: new Date(at - around).toISOString(), to: new Date(at + around).toISOString() }
      const entries = await unwrap(http.GET('/audit', { params: { query: { ...span, limit: 1000 } } }))
      return entries.filter((entry) => changeSetOf(entry) === set.id)
    },
  })
  if (!query.data?.length) return '–'
  const more = query.data.length - mostEntries
  return (
    <>
      {query.data.slice(0, mostEntries).map((entry) => (
        <div key={entry.id}>
          <Link to={paths.auditEntry(entry.id)}>{deedOf(entry.action)}</Link>{' '}
          {entry.subject !== set.id && entry.subject}
        </div>
      ))}
      {more > 0 && <div className="soft">{t('common:things.more', { count: more, number: count(more) })}</div>}
    </>
  )
}

function Report({ report }: { report: ChangeSetWhole['report'] }) {
  const { t } = useTranslation('history')
  if (report.length === 0) return <p className="soft">{t('set.noReport')}</p>
  return (
    <ul className={classes.rows}>
      {report.map((one) => (
        <li key={`${one.component} ${one.ended_at}`}>
          <div className={classes.row}>
            <Link to={paths.component(one.component)}>{componentName(one.component)}</Link>
            <StateBadge component={{ state: one.state, daemon: '' as never }} />
            <span className="soft">
              {t(`set.ways.${one.way}`)}, {t('set.took', { time: one.duration_ms })}
            </span>
          </div>
          {one.error && <p>{one.error}</p>}
          <FileDiffs files={one.files} />
        </li>
      ))}
    </ul>
  )
}

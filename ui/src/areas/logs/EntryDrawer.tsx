import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { LogEntry } from '../../api/types'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Facts } from '../../kit/page/Page'
import { Notice } from '../../kit/state/Notice'
import { exactTime } from '../../kit/text/format'
import { paths } from '../../paths'
import classes from './Logs.module.css'
import { aroundSearch } from './log-logic'
import { LevelBadge } from './marks'

interface EntryDrawerProps {
  entry: LogEntry | undefined
  titles: Map<string, string>
}

/** One entry with its full text and all its fields. */
export function EntryDrawer({ entry, titles }: EntryDrawerProps) {
  const { t, i18n } = useTranslation('logs')
  return (
    <DetailDrawer title={t('detail.title')} back={paths.logs} wide>
      {entry ? (
        <div className={classes.detail}>
          <Facts
            facts={[
              [t('at'), exactTime(entry.time)],
              [t('source'), titles.get(entry.source) ?? entry.source],
              [t('level'), <LevelBadge key="level" level={entry.level} />],
            ]}
          />
          <pre className={classes.text}>{entry.text}</pre>
          {entry.cut && <Notice tone="off">{t('detail.cut')}</Notice>}
          <Links entry={entry} />
          <section aria-label={t('detail.fields')}>
            <h3>{t('detail.fields')}</h3>
            <Facts
              facts={Object.entries(entry.fields).map(([name, value]) => [
                i18n.exists(`logs:fields.${name}`) ? t(`fields.${name}`) : name,
                <span key={name} className="mono">
                  {value}
                </span>,
              ])}
            />
          </section>
        </div>
      ) : (
        <Notice tone="off">{t('detail.gone')}</Notice>
      )}
    </DetailDrawer>
  )
}

function Links({ entry }: { entry: LogEntry }) {
  const { t } = useTranslation('logs')
  const { request_id: request, audit_id: audit, domain_id: domain } = entry.fields
  return (
    <nav className={classes.links}>
      <Link to={paths.logs} search={aroundSearch(entry) as never}>
        {t('detail.around')}
      </Link>
      {request && (
        <Link to={paths.logs} search={{ text: request } as never}>
          {t('detail.same')}
        </Link>
      )}
      {audit && <Link to={paths.auditEntry(audit)}>{t('detail.audit')}</Link>}
      {domain && <Link to={paths.domain(domain)}>{t('detail.domain')}</Link>}
    </nav>
  )
}

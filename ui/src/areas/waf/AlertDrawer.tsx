import { Button } from '@mantine/core'
import { IconGavel } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { WafAlert, WafAlertDetail } from '../../api/types'
import { CopyText } from '../../kit/page/CopyText'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Facts } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { exactTime } from '../../kit/text/format'
import { paths } from '../../paths'
import { looksAtRequests } from './alert-logic'
import { KeptRequest } from './KeptRequest'
import { AlertAction, AlertsLink, Masked, partName, Severity } from './marks'
import { Tune } from './Tune'
import classes from './Waf.module.css'

/** One request with all details: what it was, which rules matched and where, and what to do about it. */
export default function AlertDrawer() {
  const { t } = useTranslation('waf')
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery({
    queryKey: ['waf', 'alert', id],
    queryFn: () => unwrap(http.GET('/waf/alerts/{id}', { params: { path: { id } } })),
  })
  return (
    <DetailDrawer title={t('detail.title')} back={paths.wafAlerts} wide>
      <Loaded query={query} height={320}>
        {(alert) => (
          <div className={classes.detail}>
            <Head alert={alert} />
            <Legitimate alert={alert} />
            <section aria-label={t('detail.rules')}>
              <h3>{t(alert.action === 'unavailable' ? 'detail.why' : 'detail.rules')}</h3>
              <ul className={classes.records}>
                {alert.records.map((record) => (
                  <Record key={record.id} record={record} />
                ))}
              </ul>
            </section>
            {alert.action !== 'unavailable' && (
              <section aria-label={t('detail.request')}>
                <h3>{t('detail.request')}</h3>
                {alert.request ? (
                  <KeptRequest request={alert.request} />
                ) : (
                  <Notice tone="off">{t('detail.notKept')}</Notice>
                )}
              </section>
            )}
          </div>
        )}
      </Loaded>
    </DetailDrawer>
  )
}

function Head({ alert }: { alert: WafAlertDetail }) {
  const { t } = useTranslation('waf')
  return (
    <>
      <p className={classes.action}>
        <AlertAction action={alert.action} />
        <span>{t(`actionTexts.${alert.action}`)}</span>
      </p>
      {alert.partial && <Notice tone="warn">{t('detail.partial')}</Notice>}
      <Facts
        facts={[
          [t('alert.at'), exactTime(alert.created_at)],
          [
            t('alert.domain'),
            alert.domain_id ? (
              <Link key="domain" to={paths.wafDomain(alert.domain_id)} className="mono">
                {alert.domain}
              </Link>
            ) : (
              <span key="domain" className="mono">
                {alert.domain}
              </span>
            ),
          ],
          [
            t('alert.client'),
            <AlertsLink key="client" of={{ client: alert.client_ip }}>
              <span className="mono">{alert.client_ip}</span>
            </AlertsLink>,
          ],
          [t('alert.score'), alert.score],
        ]}
      />
      {alert.request_id && (
        <div>
          <h3>{t('detail.reference')}</h3>
          <CopyText text={alert.request_id} label={t('detail.reference')} />
          {alert.action === 'blocked' && <span className={classes.soft}>{t('detail.referenceHelp')}</span>}
        </div>
      )}
    </>
  )
}

/** Excludes a request that should have passed from all rules that it matched. */
function Legitimate({ alert }: { alert: WafAlertDetail }) {
  const { t } = useTranslation('waf')
  const canEdit = useCanEdit()
  const [tuning, setTuning] = useState(false)
  if (!canEdit || !alert.domain_id || !alert.records.some(({ rule_id }) => looksAtRequests(rule_id))) return null
  if (tuning) return <Tune id={alert.id} onClose={() => setTuning(false)} />
  return (
    <div>
      <Button size="compact-sm" variant="default" onClick={() => setTuning(true)}>
        {t('tune.verb')}
      </Button>
    </div>
  )
}

/** One matching rule, in words. */
function Record({ record }: { record: WafAlert }) {
  const { t } = useTranslation('waf')
  const isRule = record.rule_id > 0
  return (
    <li className={classes.record}>
      <div className={classes.recordHead}>
        {isRule && (
          <Link to={paths.wafRules} search={{ q: String(record.rule_id) } as never} className="mono">
            {t('detail.ruleOf', { id: record.rule_id })}
          </Link>
        )}
        <Severity severity={record.severity} />
        {record.paranoia > 0 && <span className="soft">{t('detail.level', { level: record.paranoia })}</span>}
        {record.deciding && (
          <Badge tone="off" icon={IconGavel}>
            {t('detail.deciding')}
          </Badge>
        )}
      </div>
      <div className={classes.message}>{record.message}</div>
      {isRule && record.data.length > 0 && (
        <ul className={classes.data}>
          {record.data.map((datum) => (
            <li key={`${datum.variable} ${datum.key} ${datum.value}`}>
              {t('detail.matched')} {partName(datum.variable)} {datum.key && <code className="mono">{datum.key}</code>}:{' '}
              <code className="mono">
                <Masked text={datum.value} />
              </code>{' '}
              {datum.masked && <span className="soft">({t('detail.masked')})</span>}
            </li>
          ))}
        </ul>
      )}
      {isRule && (
        <AlertsLink of={{ rule_id: String(record.rule_id) }} label={`${t('detail.sameRule')}: ${record.rule_id}`}>
          {t('detail.sameRule')}
        </AlertsLink>
      )}
    </li>
  )
}

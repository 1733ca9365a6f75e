import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { Insights, Rule } from '../../api/types'
import { Panel } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Firewall.module.css'

export const useInsights = () =>
  useQuery({
    queryKey: ['firewall', 'insights'],
    queryFn: () => unwrap(http.GET('/firewall/insights')),
    refetchInterval: 60_000,
  })

const groups = ['wide_open', 'shadowed', 'skipped', 'empty', 'duplicates', 'unused'] as const
type Group = (typeof groups)[number]
type Ref = { id: string; name: string }

/** Rules to review; nothing if there are none. */
export function InsightsPanel({ rules }: { rules: readonly Rule[] }) {
  const { t } = useTranslation('firewall')
  const { data } = useInsights()
  const found = groups.filter((group) => data && data[group].length > 0)
  if (!data || found.length === 0) return null
  const known = new Set(rules.map(({ id }) => id))
  const link = ({ id, name }: Ref) => <Link to={known.has(id) ? paths.rule(id) : paths.natRule(id)}>{name}</Link>
  return (
    <Panel title={t('insights.title')}>
      <div className={classes.insights}>
        {found.map((group) => (
          <details key={group}>
            <summary>
              <Badge tone={group === 'unused' || group === 'duplicates' ? 'off' : 'warn'}>
                {t(`insights.${group}.title`, { count: data[group].length })}
              </Badge>
            </summary>
            <p className="soft">{t(`insights.${group}.text`)}</p>
            <ul>
              {lines(group, data, link).map(([key, line]) => (
                <li key={key}>{line}</li>
              ))}
            </ul>
          </details>
        ))}
      </div>
    </Panel>
  )
}

function lines(group: Group, data: Insights, link: (ref: Ref) => ReactNode): [key: string, line: ReactNode][] {
  switch (group) {
    case 'wide_open':
      return data.wide_open.map((one) => [one.id, link(one)])
    case 'unused':
      return data.unused.map((one) => [one.id, <Unused key={one.id} {...one} link={link(one)} />])
    case 'shadowed':
      return data.shadowed.map((one) => [one.id, <Shadowed key={one.id} {...one} link={link} />])
    case 'duplicates':
      return data.duplicates.map(({ rules }) => [
        rules[0]?.id ?? '',
        <Row key={rules[0]?.id} rules={rules} link={link} />,
      ])
    default:
      return data[group].map((one) => [
        one.id,
        <>
          {link(one)}: {one.reason}
        </>,
      ])
  }
}

function Row({ rules, link }: { rules: readonly Ref[]; link: (ref: Ref) => ReactNode }) {
  return rules.map((one, index) => (
    <span key={one.id}>
      {index > 0 && ', '}
      {link(one)}
    </span>
  ))
}

function Shadowed({ link, ...one }: Insights['shadowed'][number] & { link: (ref: Ref) => ReactNode }) {
  const { t } = useTranslation('firewall')
  return (
    <>
      {link(one)} {t('insights.behind')} <Row rules={one.by} link={link} />
      {!one.same_action && <> · {t('insights.otherAction')}</>}
    </>
  )
}

function Unused({ since, last_hit_at, link }: Insights['unused'][number] & { link: ReactNode }) {
  const { t } = useTranslation('firewall')
  return (
    <>
      {link} · {t(last_hit_at ? 'insights.lastHit' : 'insights.noHitSince')} <Time at={last_hit_at || since} />
    </>
  )
}

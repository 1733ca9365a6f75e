import { useTranslation } from 'react-i18next'
import type { License } from '../../api/types'
import { Notice } from '../../kit/state/Notice'
import { count } from '../../kit/text/format'
import classes from './License.module.css'
import { shareOf } from './standing'

const names = ['nodes', 'domains', 'tunnel_peers'] as const

/** What the license covers, and how much is used. */
export function Uses({ license }: { license: License }) {
  const { t } = useTranslation('license')
  return (
    <>
      {license.over && (
        <div className={classes.notice}>
          <Notice tone="warn" title={t('use.overTitle')}>
            {t('use.overText')}
          </Notice>
        </div>
      )}
      <ul className={classes.uses}>
        {names.map((name) => (
          <li key={name} className={classes.use}>
            <Use label={t(`use.${name}`)} {...license.limits[name]} />
          </li>
        ))}
      </ul>
    </>
  )
}

function Use({ label, limit, used, over }: { label: string } & License['limits']['nodes']) {
  const { t } = useTranslation('license')
  const share = shareOf({ limit, used })
  const known = used === null ? t('use.unknown') : count(used)
  const words = limit === null ? t('use.unlimited', { used: known }) : t('use.of', { used: known, limit: count(limit) })
  return (
    <>
      <div className={classes.useHead}>
        <span>{label}</span>
        <span title={used === null ? t('use.away') : undefined}>{words}</span>
      </div>
      {share !== null && (
        <span className={classes.bar} role="img" aria-label={`${label}: ${words}`} data-over={over || undefined}>
          <span style={{ width: `${100 * share}%` }} />
        </span>
      )}
      {over && <span className={classes.over}>{t('use.over')}</span>}
    </>
  )
}

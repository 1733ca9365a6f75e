import { useTranslation } from 'react-i18next'
import type { Rule } from '../../api/types'
import { ownConnection } from '../../kit/change/own-connection'
import type { Guard } from '../../kit/change/remove'
import { Notice } from '../../kit/state/Notice'
import { opensInside } from './wide-open'

/** Asks before a rule opens the LAN to the internet or cuts off the console. */
export const ruleGuard =
  (stored: readonly Rule[]): Guard =>
  async (operations) => {
    const opening = operations
      .map(({ id, body }) => ({ before: stored.find((rule) => rule.id === id), body }))
      .map(({ before, body }) => ({ before, after: { ...before, ...(body as Partial<Rule>) } }))
      .find(({ before, after }) => opensInside(after) && !(before && opensInside(before)))
    // If this check fails, still show the other warning.
    const cut = await ownConnection(operations).catch(() => null)
    if (!opening) return cut
    return (
      <>
        <OpeningNotice rule={opening.after} />
        {cut}
      </>
    )
  }

function OpeningNotice({ rule: { dst_zone: zone, dst_kind: kind } }: { rule: Partial<Rule> }) {
  const { t } = useTranslation('firewall')
  const reach = kind !== 'any' ? 'part' : zone === 'any' ? 'anywhere' : 'zone'
  return (
    <Notice tone="bad" title={t(`wide.${reach}`, { zone })}>
      {t('wide.instead')}
    </Notice>
  )
}

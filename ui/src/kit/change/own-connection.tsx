import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { Operation } from '../../api/resource'
import type { Explanation } from '../../api/types'
import i18n from '../../i18n/i18n'
import { Notice } from '../state/Notice'
import { confirm } from './confirm'
import { type Guard, objectionTo } from './remove'

/** Whether a connection to the gateway would no longer arrive. */
export const cuts = ({ verdict, path }: Pick<Explanation, 'verdict' | 'path'>) =>
  verdict !== 'accept' || path !== 'input'

/** Checks what a change would do to the connection that the console is using. */
export const ownConnection: Guard = async (operations) => {
  const answer = await unwrap(http.POST('/firewall/explain', { body: { mine: true, operations } }))
  return cuts(answer) && <CutNotice answer={answer} />
}

/** Checks what the user's draft would do to that connection. */
export const ownDraft = () => unwrap(http.POST('/firewall/explain', { body: { mine: true, draft: true } }))

/** Whether the console's connection uses IPv6. If that is unknown, assumes not. */
export const isOverIPv6 = () =>
  unwrap(http.POST('/firewall/explain', { body: { mine: true } })).then(
    ({ packet }) => packet.source.includes(':'),
    () => false,
  )

export function CutNotice({ answer: { decided_by, path, nat } }: { answer: Explanation }) {
  const { t } = useTranslation()
  return (
    <Notice tone="bad" title={t('cut.title')}>
      {path !== 'input' && <div>{t('cut.away')}</div>}
      {nat.map(({ name, from, to }) => (
        <div key={from}>
          {name}: <span className="mono">{`${from} → ${to}`}</span>
        </div>
      ))}
      <div>{decided_by.text}</div>
    </Notice>
  )
}

/** For a change without a form: true if there is no objection, or the user agrees anyway. */
export async function agreedTo(operation: Operation, guard: Guard = ownConnection): Promise<boolean> {
  const objection = await objectionTo([operation], guard)
  if (!objection) return true
  return confirm({
    title: i18n.t('cut.ask'),
    text: objection,
    verb: i18n.t('cut.verb'),
    danger: true,
  })
}

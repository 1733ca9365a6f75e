import './texts'
import { IconEye, IconEyeOff, IconShieldCheck } from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { WafAgent, WafAlert } from '../../api/types'
import { optionalText } from '../../i18n/i18n'
import type { ListSearch } from '../../kit/list/list-logic'
import type { Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import { maskedParts } from './alert-logic'
import type { State } from './config-form'
import classes from './Waf.module.css'

/** The state of the agent. If no domain needs it, it may be down. */
export function AgentBadge({ agent, used }: { agent: WafAgent; used: boolean }) {
  const { t } = useTranslation('waf')
  if (agent.state === 'up') return <Badge tone="live">{t('agent.up')}</Badge>
  return used ? (
    <Badge tone="bad" filled>
      {t('agent.down')}
    </Badge>
  ) : (
    <Badge tone="off">{t('agent.unused')}</Badge>
  )
}

const states: Record<State, { tone: Tone; icon?: typeof IconEye }> = {
  off: { tone: 'off' },
  detection: { tone: 'warn', icon: IconEye },
  blocking: { tone: 'live', icon: IconShieldCheck },
}

/** The state of the WAF for a domain. */
export function WafState({ state }: { state: State }) {
  const { t } = useTranslation('waf')
  return <Badge {...states[state]}>{t(`states.${state}`)}</Badge>
}

const actions: Record<WafAlert['action'], { tone: Tone; icon: typeof IconEye }> = {
  blocked: { tone: 'live', icon: IconShieldCheck },
  detected: { tone: 'warn', icon: IconEye },
  unavailable: { tone: 'bad', icon: IconEyeOff },
}

/** What happened to a request. */
export function AlertAction({ action }: Pick<WafAlert, 'action'>) {
  const { t } = useTranslation('waf')
  return <Badge {...actions[action]}>{t(`actions.${action}`)}</Badge>
}

const severities: Record<string, Tone> = { warning: 'warn', notice: 'off', info: 'off', debug: 'off' }

export function Severity({ severity }: { severity: string }) {
  const word = severity.toLowerCase()
  if (!word) return <span className="soft">–</span>
  return <Badge tone={severities[word] ?? 'bad'}>{optionalText(`waf:severity.${word}`) ?? word}</Badge>
}

/** Text with highlighted masks in place of secrets. */
export function Masked({ text }: { text: string }) {
  return maskedParts(text).map(({ text: part, masked, at }) =>
    masked ? (
      <mark key={at} className={classes.masked}>
        {part}
      </mark>
    ) : (
      part
    ),
  )
}

/** A link to the alerts that match a filter. */
export function AlertsLink({ of, label, children }: { of: ListSearch; label?: string; children: React.ReactNode }) {
  return (
    <Link to={paths.wafAlerts} search={of as never} aria-label={label}>
      {children}
    </Link>
  )
}

/** The part of a request that a rule inspected, in words. */
export const partName = (variable: string) => optionalText(`waf:parts.${variable}`) ?? variable
